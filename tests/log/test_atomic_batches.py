"""Events of several jobs enter the log together or not at all, whatever breaks on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.given import REPORT, completed, created, retry_scheduled, skipped, started
from tests.support.cluster import cluster
from tests.support.facts import until
from tests.support.fault_proxy import FaultProxy, Then, fault_proxy
from tests.support.lab import Probe, probe
from tests.support.servers import NEWEST, start_version
from trellis_jobs.contract.features import LEVEL_2_12, Features
from trellis_jobs.contract.topology import LOG, Topology
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import NotConfirmed, PayloadTooLarge, RequestRefused, ServerTooOld
from trellis_jobs.errors.infrastructure import JetStreamNotReady
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.log.event_log import EventLog, Refused
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.model import subjects
from trellis_jobs.model.events import Event, EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import replace
from trellis_jobs.wire import headers as h

WITH_BATCHES = ("2.12.8", "2.14.6", NEWEST)
AT_ONCE = 50  # as many batches as a stream holds open, unlike the ones that are complete
AFTER_AN_ELECTION = 60.0  # some ask again after 5 s, and then have to wait for half a batch


@pytest.fixture(params=WITH_BATCHES)
def any_server(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    with start_version(request.param) as running:
        yield running


@asynccontextmanager
async def writer(url: str, **stream: Any) -> AsyncIterator[Probe]:
    async with probe(url) as raw:
        await provision(raw.connection, Topology(raw.features, **stream))
        yield raw


def job(name: str) -> JobAddress:
    return replace(REPORT, job_id=name)


async def create(raw: Probe, name: str) -> Head:
    head = await raw.events.try_append(None, created(job=job(name)))
    assert isinstance(head, Head)
    return head


def replacing(old: Head, name: str, by: str) -> list[tuple[Head | None, Event]]:
    """One job is skipped for another: either both events are in the log, or neither."""
    return [(old, skipped(job=job(name), tries=0)), (None, created(job=job(by)))]


async def history(raw: Probe, name: str) -> list[EventKind]:
    return [entry.event.kind for entry in await raw.events.history(job(name))]


async def events_in_the_log(raw: Probe) -> int:
    info = await api.request(raw.connection, f"STREAM.INFO.{LOG}")
    return int(info["state"]["messages"])


async def test_both_events_are_in_the_log_one_after_the_other(any_server: EmbeddedServer) -> None:
    async with writer(any_server.url) as raw:
        old = await create(raw, "old")
        heads = await raw.events.try_append_together(replacing(old, "old", by="new"))
        assert isinstance(heads, list)
        assert {head.sequence for head in heads} == {old.sequence + 1, old.sequence + 2}
        assert heads == [await raw.events.head(job("old")), await raw.events.head(job("new"))]
        assert [head.status.state for head in heads] == [JobState.SKIPPED, JobState.PENDING]
        assert heads[1].status.run == heads[1].sequence


async def test_the_heads_guard_what_is_appended_next(any_server: EmbeddedServer) -> None:
    async with writer(any_server.url) as raw:
        heads = await raw.events.try_append_together(
            [(None, created(job=job(name))) for name in ("a", "b", "c")]
        )
        assert isinstance(heads, list)
        for name, head in zip(("a", "b", "c"), heads, strict=True):
            running = await raw.events.try_append(head, started(job=job(name)))
            assert isinstance(running, Head)
            assert isinstance(await raw.events.try_append(head, started(job=job(name))), Refused)
        assert await history(raw, "b") == ["created", "started"]


async def test_a_job_created_in_a_batch_is_put_to_work(any_server: EmbeddedServer) -> None:
    async with writer(any_server.url) as raw:
        old = await create(raw, "old")
        await raw.events.try_append_together(replacing(old, "old", by="new"))

        async def queued() -> bool:
            return await raw.work_messages() == 2

        await until(queued, "both jobs are in the work queue")


@pytest.mark.parametrize("stale", ["the first", "the second", "both"])
async def test_a_stale_guard_keeps_every_event_out(any_server: EmbeddedServer, stale: str) -> None:
    async with writer(any_server.url) as raw:
        old = await create(raw, "old")
        newest: list[Head | Refused] = []
        if stale != "the second":
            newest.append(await raw.events.try_append(old, started(job=job("old"))))
        if stale != "the first":
            newest.append(await create(raw, "new"))
        before = await events_in_the_log(raw)
        refusal = await raw.events.try_append_together(replacing(old, "old", by="new"))
        assert refusal in [Refused(head.sequence) for head in newest if isinstance(head, Head)]
        assert await events_in_the_log(raw) == before


async def test_one_event_alone_is_a_batch_too(server: EmbeddedServer) -> None:
    async with writer(server.url) as raw:
        heads = await raw.events.try_append_together([(None, created(job=job("only")))])
        assert heads == [await raw.events.head(job("only"))]


async def test_an_event_that_is_not_legal_is_a_mistake_of_the_caller(
    server: EmbeddedServer,
) -> None:
    async with writer(server.url) as raw:
        old = await create(raw, "old")
        with pytest.raises(ValueError, match="reducer rejects"):
            await raw.events.try_append_together(
                [(None, created(job=job("new"))), (old, completed(job=job("old")))]
            )
        assert await events_in_the_log(raw) == 1


async def test_no_batch_holds_two_events_of_one_job_or_none_at_all(server: EmbeddedServer) -> None:
    """The server would compare both guards with the log as it was before the batch."""
    async with writer(server.url) as raw:
        with pytest.raises(ValueError, match="at most one event per job"):
            await raw.events.try_append_together([(None, created()), (None, created())])
        with pytest.raises(ValueError, match="at most one event per job"):
            await raw.events.try_append_together([])
        assert await events_in_the_log(raw) == 0


@pytest.mark.parametrize("version", ["2.10.26", "2.11.11"])
async def test_on_a_server_without_batches_nothing_is_appended(version: str) -> None:
    with start_version(version) as old_server:
        async with writer(old_server.url) as raw:
            assert await raw.events.try_append_together([(None, created())]) is None
            assert await events_in_the_log(raw) == 0


async def test_to_a_stream_that_allows_no_batches_nothing_is_appended(
    any_server: EmbeddedServer,
) -> None:
    """As after an upgrade of the server, until an operator has said that none is older."""
    async with writer(any_server.url) as raw:
        config = Topology(raw.features).log() | {"allow_atomic": False}
        await api.request(raw.connection, f"STREAM.UPDATE.{LOG}", config)
        both = [(None, created(job=job(name))) for name in ("one", "other")]
        assert await raw.events.try_append_together(both) is None
        assert await events_in_the_log(raw) == 0


async def test_a_leader_that_is_too_old_for_batches_is_found_out() -> None:
    """As in the middle of an upgrade: the server of this connection can, the log's leader not."""
    with start_version("2.11.11") as old_server:
        async with writer(old_server.url) as raw:
            misled = EventLog(raw.connection, Features("2.12.0", LEVEL_2_12))
            with pytest.raises(ServerTooOld, match="leader"):
                await misled.try_append_together([(None, created())])


async def test_an_event_that_no_server_takes_is_said_before_any_is_sent(
    server: EmbeddedServer,
) -> None:
    async with writer(server.url) as raw:
        small = created(job=job("small"))
        huge = created(job=job("huge"), payload="x" * raw.connection.max_payload)
        for _ in range(AT_ONCE):  # would be all that a stream takes, were each left half open
            with pytest.raises(PayloadTooLarge):
                await raw.events.try_append_together([(None, small), (None, huge)])
        fitting = [(None, small), (None, replace(huge, payload="x"))]
        assert isinstance(await raw.events.try_append_together(fitting, timeout=3), list)


async def test_an_event_that_the_stream_does_not_take_is_refused_by_its_own_name(
    server: EmbeddedServer,
) -> None:
    async with writer(server.url) as raw:
        config = Topology(raw.features).log() | {"max_msg_size": 10_000}
        await api.request(raw.connection, f"STREAM.UPDATE.{LOG}", config)
        large = created(job=job("large"), payload="x" * 20_000)
        with pytest.raises(RequestRefused, match=r"large\.created.*size"):
            await raw.events.try_append_together([(None, large), (None, created(job=job("small")))])
        assert await events_in_the_log(raw) == 0


async def test_a_batch_whose_acknowledgement_is_lost_is_there_once(
    any_server: EmbeddedServer,
) -> None:
    async with (
        writer(any_server.url) as raw,
        fault_proxy(any_server.url) as way,
        probe(way.url) as cut_off,
    ):
        old = await create(raw, "old")
        lost = losing_the_answer(way)
        heads = await cut_off.events.try_append_together(replacing(old, "old", by="new"))
        assert lost == ["answer"]
        assert heads == [await raw.events.head(job("old")), await raw.events.head(job("new"))]
        assert await history(raw, "old") == ["created", "skipped"]
        assert await history(raw, "new") == ["created"]
        assert await events_in_the_log(raw) == 3


def losing_the_answer(way: FaultProxy, *, until_admitted: bool = False) -> list[str]:
    lost: list[str] = []

    def lose() -> Then:
        lost.append("answer")
        if until_admitted:
            way.refuse()
        return Then.CUT

    way.when_server_sends(rb'"batch":', lose)
    return lost


async def test_a_lost_acknowledgement_is_found_in_the_log_though_the_jobs_moved_on(
    server: EmbeddedServer,
) -> None:
    async with (
        writer(server.url) as raw,
        fault_proxy(server.url) as way,
        probe(way.url) as cut_off,
    ):
        old = await create(raw, "old")
        running = await raw.events.try_append(old, started(job=job("old")))
        assert isinstance(running, Head)
        lost = losing_the_answer(way, until_admitted=True)
        appending = asyncio.create_task(
            cut_off.events.try_append_together(
                [(running, retry_scheduled(job=job("old"))), (None, created(job=job("new")))]
            )
        )
        await until(lambda: lost, "the answer is lost")
        heads = [await raw.events.head(job(name)) for name in ("old", "new")]
        for name, head, tries in (("old", heads[0], 2), ("new", heads[1], 1)):
            assert isinstance(
                await raw.events.try_append(head, started(job=job(name), tries=tries)), Head
            )
        way.admit()
        assert await appending == heads
        assert await history(raw, "old") == ["created", "started", "retry", "started"]
        assert await history(raw, "new") == ["created", "started"]


async def test_a_batch_that_never_arrived_is_refused_if_a_job_moved_on_meanwhile(
    server: EmbeddedServer,
) -> None:
    async with (
        writer(server.url) as raw,
        fault_proxy(server.url) as way,
        probe(way.url) as cut_off,
    ):
        old = await create(raw, "old")
        lost: list[str] = []

        def lose() -> Then:
            lost.append("batch")
            way.refuse()
            return Then.CUT

        way.when_client_sends(rb"Nats-Batch-Id", lose)
        appending = asyncio.create_task(
            cut_off.events.try_append_together(replacing(old, "old", by="new"))
        )
        await until(lambda: lost, "the batch is lost")
        moved = await raw.events.try_append(old, started(job=job("old")))
        assert isinstance(moved, Head)
        way.admit()
        assert await appending == Refused(moved.sequence)
        assert await history(raw, "old") == ["created", "started"]
        assert await history(raw, "new") == []


async def test_a_server_killed_in_the_middle_of_a_batch_takes_it_once_after_its_return(
    any_server: EmbeddedServer,
) -> None:
    async with (
        writer(any_server.url) as raw,
        fault_proxy(any_server.url) as way,
        probe(way.url) as writing,
    ):
        old = await create(raw, "old")
        killed: list[bool] = []

        def kill() -> Then:
            killed.append(True)
            any_server.kill()
            any_server.restart()
            return Then.CUT

        # The second event is longer than a chunk, so the first is there before the last is.
        way.when_client_sends(rb"old\.skipped", kill)
        heads = await writing.events.try_append_together(
            [
                (None, created(job=job("short"))),
                (None, created(job=job("long"), payload="x" * 400_000)),
                (old, skipped(job=job("old"), tries=0)),
            ]
        )
        assert killed
        assert isinstance(heads, list)
        await raw.connection.wait_until_connected()
        assert heads == [await raw.events.head(job(name)) for name in ("short", "long", "old")]
        assert await events_in_the_log(raw) == 4


async def test_a_batch_that_is_not_confirmed_in_time_says_so(server: EmbeddedServer) -> None:
    async with (
        writer(server.url) as raw,
        fault_proxy(server.url) as way,
        probe(way.url) as cut_off,
    ):
        old = await create(raw, "old")
        way.refuse()
        await until(lambda: not cut_off.connection.is_connected, "the connection is lost")
        with pytest.raises(NotConfirmed, match=r"new\.created with .*old\.skipped") as unsure:
            await cut_off.events.try_append_together(replacing(old, "old", by="new"), timeout=0.3)
        assert unsure.value.job_id == "new"


async def test_many_batches_at_once_all_get_in(any_server: EmbeddedServer) -> None:
    names = [f"job-{number}" for number in range(4 * AT_ONCE)]
    async with writer(any_server.url) as raw, probe(any_server.url) as other:
        olds = await asyncio.gather(*(create(raw, name) for name in names))
        answers = await asyncio.gather(
            *(
                (raw, other)[number % 2].events.try_append_together(
                    replacing(old, names[number], by=f"new-{number}")
                )
                for number, old in enumerate(olds)
            )
        )
        for number, heads in enumerate(answers):
            pair = [job(names[number]), job(f"new-{number}")]
            assert heads == [await raw.events.head(address) for address in pair]
        assert await events_in_the_log(raw) == 3 * len(names)


async def test_of_many_who_replace_one_job_exactly_one_succeeds(any_server: EmbeddedServer) -> None:
    async with writer(any_server.url) as raw, probe(any_server.url) as other:
        await one_of_many_replaces([raw, other], rounds=20)


async def one_of_many_replaces(writers: list[Probe], rounds: int) -> None:
    raw = writers[0]
    for number in range(rounds):
        old = await create(raw, f"old-{number}")
        answers = await asyncio.gather(
            *(
                one.events.try_append_together(
                    replacing(old, f"old-{number}", by=f"new-{number}-{contender}")
                )
                for contender, one in enumerate(writers * 3)
            )
        )
        (won,) = [answer for answer in answers if isinstance(answer, list)]
        lost = [answer for answer in answers if isinstance(answer, Refused)]
        assert lost == [Refused(won[0].sequence)] * (len(answers) - 1)
        assert await events_in_the_log(raw) == 3 * (number + 1)


async def test_a_batch_waits_for_its_turn_while_too_many_are_open(
    any_server: EmbeddedServer,
) -> None:
    async with (
        writer(any_server.url) as raw,
        fault_proxy(any_server.url) as way,
        probe(way.url) as waiting,
    ):
        for number in range(AT_ONCE):
            await say_half(raw, number, place=1)
        told_to_wait: list[bool] = []

        def note() -> Then:
            told_to_wait.append(True)
            return Then.FORWARD

        way.when_server_sends(rb"10176", note, uses=1000)
        appending = asyncio.create_task(
            waiting.events.try_append_together(
                [(None, created(job=job("late"))), (None, created(job=job("later")))]
            )
        )
        await until(lambda: len(told_to_wait) > 1, "the batch is told to wait, twice")
        await say_half(raw, 0, place=2)
        heads = await appending
        assert heads == [await raw.events.head(job(name)) for name in ("late", "later")]


async def say_half(raw: Probe, number: int, *, place: int) -> None:
    """One half of a batch of two, by a client that pauses for long between the two."""
    subject = subjects.lifecycle(job(f"slow-{number}-{place}"), EventKind.CREATED)
    headers = {h.BATCH_ID: f"slow-{number}", h.BATCH_SEQUENCE: str(place)}
    if place == len(("first", "second")):
        headers[h.BATCH_COMMIT] = "1"
    answer = await raw.connection.request(subject, b"{}", headers=headers)
    assert b"error" not in answer.data


@pytest.mark.timeout(300)
async def test_on_three_replicas_changing_leaders_lose_and_double_nothing() -> None:
    with cluster() as nodes:
        await nodes.until_ready()
        one, two, three = nodes.url.split(",")
        async with writer(one, replicas=3) as raw, probe(two) as second, probe(three) as third:
            await one_of_many_replaces([raw, second, third], rounds=10)
            await a_worker_or_a_replacer(raw, rounds=50)
            before = await events_in_the_log(raw)
            chains = [Chain(f"chain-{n}", one) for n, one in enumerate((raw, second, third))]
            async with asyncio.TaskGroup() as replacing_on:
                for chain in chains:
                    replacing_on.create_task(chain.grow())
                for _ in range(5):
                    await until(lambda: a_new_leader(raw), "the leader steps down")
                    lengths = [chain.length for chain in chains]
                    for chain, length in zip(chains, lengths, strict=True):
                        longer = partial(chain.is_longer_than, length)
                        await until(longer, "batches get in again", deadline=AFTER_AN_ELECTION)
                for chain in chains:
                    chain.ends = True
            stored = sum(2 * chain.length - 1 for chain in chains)
            assert await events_in_the_log(raw) == before + stored


async def a_worker_or_a_replacer(raw: Probe, rounds: int) -> None:
    """A job is started, or it is replaced, whichever is sent first; never both."""
    for number in range(rounds):
        name = f"wanted-{number}"
        old = await create(raw, name)
        sent = [
            raw.events.try_append_together(replacing(old, name, by=f"instead-{number}")),
            raw.events.try_append(old, started(job=job(name))),
        ]
        answers = await asyncio.gather(*(sent if number % 2 else reversed(sent)))
        assert [isinstance(answer, Refused) for answer in answers].count(True) == 1


@dataclass
class Chain:
    """Jobs of which each replaces the one before."""

    name: str
    writer: Probe
    length: int = 0
    ends: bool = False

    async def grow(self) -> None:
        head, self.length = await create(self.writer, f"{self.name}-0"), 1
        while not self.ends:
            steps = replacing(head, f"{self.name}-{self.length - 1}", f"{self.name}-{self.length}")
            heads = await self.writer.events.try_append_together(steps)
            assert isinstance(heads, list)
            head, self.length = heads[1], self.length + 1

    def is_longer_than(self, length: int) -> bool:
        return self.length > length


async def a_new_leader(raw: Probe) -> bool:
    try:
        await api.request(raw.connection, f"STREAM.LEADER.STEPDOWN.{LOG}")
    except (RequestRefused, JetStreamNotReady):
        return False
    return True
