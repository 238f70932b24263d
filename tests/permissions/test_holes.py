"""Ways around permissions that servers leave open inside one account, and what closes them.

A client chooses where the answers to its requests go, and the server does not ask whether that
client might publish there.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.permissions.installation import CARELESS, ROOT_USER, Installation, installed
from tests.permissions.services import Chore, household, staff
from tests.support.facts import until
from trellis_jobs.contract.topology import FIXED_DELIVERY
from trellis_jobs.errors import NotPermitted
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.model.states import JobState

STREAMS: Final = ("JOBS", "JOBS_WORK", "KV_JOBS_KEYS", "VICTIM")
OWN: Final = "trellis.jobs.garden.work.x.logged"
JOB: Final = "trellis.jobs.house.work.01JHOUSEJOB.cancelled"
KEY: Final = "$KV.JOBS_KEYS.house.keyed.0123abcd"
TARGETS: Final = {
    "a job": JOB,
    "a key": KEY,
    "work": "trellis.work.house.unattended.01JHOUSEJOB",
    "a purge": "$JS.API.STREAM.PURGE.VICTIM",
    "a deletion": "$JS.API.STREAM.DELETE.VICTIM",
}
OF_NO_INTEREST: Final = re.compile(r"\.(garden|workers)\.")
BEATING: Final = {"idle_heartbeat": 100_000_000, "flow_control": True}
# Of one that reads everything, and is there until it is deleted.
LASTING: Final = BEATING | {"deliver_policy": "all", "inactive_threshold": 600_000_000_000}
every_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


@dataclass(frozen=True)
class Ground:
    """The streams with something of the house in each, and a stream that no service needs."""

    root: Connection
    installation: Installation

    async def all_streams(self) -> dict[str, Any]:
        """What is in them of anybody but the garden, and of workers that come and go."""
        return {name: await self._stream(name) for name in STREAMS}

    async def _stream(self, name: str) -> Any:
        answer = await self.root.request(f"$JS.API.STREAM.INFO.{name}", b'{"subjects_filter":">"}')
        info = json.loads(answer.data)
        found: dict[str, int] = info.get("state", {}).get("subjects") or {}
        others = {each: n for each, n in found.items() if not OF_NO_INTEREST.search(each)}
        newest = await self.root.request(f"$JS.API.DIRECT.GET.KV_JOBS_KEYS.{KEY}")
        return "error" in info, others, newest.data if name == "KV_JOBS_KEYS" else None


@asynccontextmanager
async def ground(installation: Installation) -> AsyncIterator[Ground]:
    async with installation.connection(ROOT_USER) as root:
        victim = {"name": "VICTIM", "subjects": ["victim"], "storage": "memory"}
        await api.request(root, "STREAM.CREATE.VICTIM", victim)
        for subject in ("victim", KEY):
            await root.request(subject, b"theirs")
        yield Ground(root, installation)


class Meddler:
    """`own`: an event of the garden, whose body is what it wants to be written elsewhere."""

    def __init__(self, connection: Connection, prefix: str) -> None:
        self.connection = connection
        self._prefix = prefix

    async def ask(self, call: str, body: Any = None) -> dict[str, Any]:
        data = b"" if body is None else json.dumps(body).encode()
        answer = await self.connection.request(f"{self._prefix}.{call}", data)
        told: dict[str, Any] = json.loads(answer.data)
        return told

    async def have_read_to(self, target: str) -> None:
        """The answer to a read goes there; the next one, to us, tells that it has been given."""
        read = f"{self._prefix}.DIRECT.GET.JOBS.{OWN}"
        await self.connection.publish(read, b"", reply=target)
        await self.connection.request(read)

    async def have_confirmed_to(self, target: str) -> None:
        await self.connection.publish(OWN, b"", reply=target)
        await self.connection.request(OWN, b"")

    async def have_pulled_to(self, target: str) -> None:
        name = await self.make_reader()
        pull = f"{self._prefix}.CONSUMER.MSG.NEXT.JOBS.{name}"
        await self.connection.publish(pull, b'{"batch":1,"no_wait":true}', reply=target)
        await self.ask(f"CONSUMER.CREATE.JOBS.after-{name}.{OWN}", _reader(f"after-{name}"))

    async def make_reader(self, **config: Any) -> str:
        name = f"spy-{secrets.token_hex(4)}"
        made = await self.ask(f"CONSUMER.CREATE.JOBS.{name}.{OWN}", _reader(name, **config))
        assert "error" not in made, made
        return name


def _reader(name: str, **config: Any) -> dict[str, Any]:
    fixed = {"name": name, "filter_subject": OWN, "ack_policy": "none", "deliver_policy": "last"}
    idle = {"inactive_threshold": 1_000_000_000}
    return {"stream_name": "JOBS", "action": "create", "config": fixed | idle | config}


@asynccontextmanager
async def meddler(
    installation: Installation, who: str = "garden", *, body: bytes = b""
) -> AsyncIterator[Meddler]:
    async with installation.connection(who) as connection:
        await connection.request(OWN, body)
        yield Meddler(connection, installation.prefixes["garden"])


WAYS: Final = (Meddler.have_read_to, Meddler.have_confirmed_to, Meddler.have_pulled_to)
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


@every_target
@every_way
@pytest.mark.parametrize("who", ["garden", CARELESS])
async def test_with_accounts_no_answer_goes_where_its_asker_may_not(
    in_accounts: Installation, who: str, way: Any, target: str
) -> None:
    async with ground(in_accounts) as at, meddler(in_accounts, who) as spy:
        before = await at.all_streams()
        await way(spy, target)
        assert await at.all_streams() == before


@pytest.fixture
def scratch() -> Iterator[Installation]:
    """In one account, and in no other."""
    with installed("users") as made:
        yield made


async def test_in_one_account_answers_go_anywhere(scratch: Installation) -> None:
    """As docs/operate/permissions.md says: if this fails, servers have become better."""
    for target in TARGETS.values():
        async with ground(scratch) as at, meddler(scratch) as spy:
            before = await at.all_streams()
            await spy.have_read_to(target)

            async def has_changed() -> bool:
                return await at.all_streams() != before  # noqa: B023

            await until(has_changed, f"the answer arrived at {target}")
            await at.root.request("$JS.API.STREAM.DELETE.VICTIM")


PAUSED: Final = b'{"pause_until":"2999-01-01T00:00:00Z"}'
STOPPING: Final = (
    ("$JS.API.CONSUMER.PAUSE.JOBS_WORK.house-work", PAUSED, "JOBS_WORK.house-work"),
    ("$JS.API.CONSUMER.PAUSE.JOBS.to-work", PAUSED, "JOBS.to-work"),
    ("$JS.API.CONSUMER.DELETE.JOBS.to-work", b"", "JOBS.to-work"),
)
every_reader = pytest.mark.parametrize("who", ["garden", "watcher"])


async def is_stopped(root: Connection, consumer: str) -> bool:
    info = json.loads((await root.request(f"$JS.API.CONSUMER.INFO.{consumer}")).data)
    return "error" in info or bool(info.get("paused"))


@every_reader
async def test_in_one_account_readers_of_the_log_can_stop_queues_and_all_job_starts(
    scratch: Installation, who: str
) -> None:
    """Services, and operators who read the log: as docs/operate/permissions.md says."""
    async with scratch.connection(ROOT_USER) as root, scratch.connection(who) as reader:
        for target, body, consumer in STOPPING:
            await root.request(OWN, body)
            await reader.publish(f"$JS.API.DIRECT.GET.JOBS.{OWN}", b"", reply=target)

            async def is_done(consumer: str = consumer) -> bool:
                return await is_stopped(root, consumer)

            await until(is_done, f"{who} reached {target}")
            await root.request("$JS.API.CONSUMER.PAUSE.JOBS.to-work", b"{}")


@every_reader
async def test_with_accounts_no_reader_of_the_log_can(in_accounts: Installation, who: str) -> None:
    async with in_accounts.connection(ROOT_USER) as root, in_accounts.connection(who) as reader:
        for target, body, consumer in STOPPING:
            await root.request(OWN, body)
            read = f"{in_accounts.prefixes[who]}.DIRECT.GET.JOBS.{OWN}"
            await reader.publish(read, b"", reply=target)
            await reader.request(read)
            assert not await is_stopped(root, consumer)


async def test_an_event_that_was_forged_so_is_no_event(in_one_account: Installation) -> None:
    async with (
        staff(in_one_account.access("house"), "work") as at_work,
        in_one_account.connection(ROOT_USER) as root,
    ):
        ref = await at_work.jobs.work.create(Chore(do="wait"))
        await at_work.until_running(ref)
        address = ref.address
        job = f"trellis.jobs.house.work.{address.job_id}"
        forged = await root.request(f"$JS.API.DIRECT.GET.JOBS.{job}.started")
        body = forged.data.replace(b'"started"', b'"cancelled"').replace(
            b'"active"', b'"cancelled"'
        )
        async with meddler(in_one_account, body=body) as spy:
            await spy.have_read_to(f"{job}.cancelled")

        async def is_stored() -> bool:
            found = await root.request(f"$JS.API.DIRECT.GET.JOBS.{job}.cancelled")
            return found.data == body

        await until(is_stored, "it is in the log")
        assert (await ref.get()).state is JobState.ACTIVE
        at_work.go.set()
        assert await ref.wait(timeout=10) == "try 1"
        assert at_work.told_to_stop == []


@pytest.mark.parametrize("subject", [OWN, "$KV.JOBS_KEYS.garden.keyed.abc"], ids=["log", "keys"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Nats-Rollup": "all"},
        {"Nats-Rollup": "sub"},
        {"Nats-Schedule": "@at 2020-01-01T00:00:00Z", "Nats-Schedule-Target": JOB},
        {"Nats-Schedule": "@every 1s", "Nats-Schedule-Target": KEY},
    ],
    ids=["rollup", "rollup of a subject", "schedule", "repeated schedule"],
)
async def test_headers_that_reach_beyond_ones_subjects_are_refused(
    installation: Installation, subject: str, headers: dict[str, str]
) -> None:
    async with ground(installation) as at, meddler(installation) as spy:
        before = await at.all_streams()
        answer = await spy.connection.request(subject, b"{}", headers=headers)
        assert "error" in json.loads(answer.data)
        assert await at.all_streams() == before


async def test_no_service_keeps_a_job_out_by_taking_its_ids_first(
    installation: Installation,
) -> None:
    async with household(installation.access("house")) as jobs, meddler(installation) as spy:
        taken = f"01JTAKEN{installation.shape.upper()}"
        for squatted in (taken, f"house.{taken}", f"house/unattended/{taken}/created"):
            answer = await spy.connection.request(OWN, b"", headers={"Nats-Msg-Id": squatted})
            assert "error" not in json.loads(answer.data)
        ref = await jobs.unattended.create(Chore(), job_id=taken)
        assert (await ref.get()).state is JobState.PENDING


@every_target
async def test_nothing_is_written_by_having_it_pushed(
    installation: Installation, target: str
) -> None:
    """A server pushes where a client subscribes to that very subject: wildcards do not count."""
    async with (
        ground(installation) as at,
        meddler(installation) as spy,
        staff(installation.access("house"), "keyed"),
    ):
        await at.root.subscribe(">", lambda _: None)
        await at.root.flush()
        before = await at.all_streams()
        if target == JOB:
            with pytest.raises(AssertionError, match="forms a cycle"):
                await spy.make_reader(deliver_subject=target, **BEATING)
        else:
            name = await spy.make_reader(deliver_subject=target, **BEATING)
            made = await api.request(at.root, f"CONSUMER.INFO.JOBS.{name}")
            assert not made.get("push_bound")
            assert made["delivered"]["consumer_seq"] == 0
        assert await at.all_streams() == before


async def test_no_reader_of_a_service_slows_down_the_job_starts_of_another(
    installation: Installation,
) -> None:
    """The source of the work queue has a subscription, but no service knows where.

    At the subject that it had once, 220 readers and 15,000 events made ten jobs take 20 s instead
    of 0.04 s. At guessed subjects, and at the one that it had, they take 0.2 s.
    """
    flood = 15_000
    async with (
        meddler(installation) as spy,
        staff(installation.access("house"), "work") as at_work,
        installation.connection(ROOT_USER) as root,
    ):
        guesses = [f"{FIXED_DELIVERY}.{secrets.token_hex(16)}" for _ in range(110)]
        readers = [
            await spy.make_reader(deliver_subject=subject, **LASTING)
            for subject in (*guesses, *[FIXED_DELIVERY] * 110)
        ]
        for _ in range(flood):
            await spy.connection.publish(OWN, b"x")
        await spy.connection.request(OWN, b"x")
        refs = await at_work.jobs.work.create_many([Chore() for _ in range(10)])
        assert [await ref.wait(timeout=10) for ref in refs] == ["try 1"] * 10
        for name in readers:
            made = await api.request(root, f"CONSUMER.INFO.JOBS.{name}")
            assert not made.get("push_bound")
            assert made["delivered"]["consumer_seq"] == 0
            await root.request(f"$JS.API.CONSUMER.DELETE.JOBS.{name}")


LEARNT_FROM: Final = (
    "CONSUMER.INFO.JOBS.to-work",
    "CONSUMER.LIST.JOBS",
    "STREAM.INFO.JOBS_WORK",
    "STREAM.LIST",
)


@pytest.mark.parametrize("call", LEARNT_FROM)
@pytest.mark.parametrize("who", ["garden", "reader", "changer", "watcher"])
async def test_no_service_or_operator_learns_where_the_source_listens(
    installation: Installation, who: str, call: str
) -> None:
    async with installation.connection(who) as connection:
        for prefix in {installation.prefixes.get(who, "$JS.API"), "$JS.API"}:
            with pytest.raises(NotPermitted):
                await connection.request(f"{prefix}.{call}", timeout=2)
    async with installation.connection(ROOT_USER) as root:
        told = await root.request(f"$JS.API.{call}")
        assert f"{FIXED_DELIVERY}.".encode() in told.data
