"""Moves on a real bucket are applied once each, despite other writers and failures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from tests.given import KEY, after, key_state, slot, waiting
from tests.support.cluster import cluster
from tests.support.facts import until
from tests.support.fault_proxy import FaultProxy, Then, fault_proxy
from tests.support.lab import Probe, probe
from trellis_jobs.contract.topology import KEYS, Topology
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import KeyStateMalformed, NotConfirmed
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.keys import bucket
from trellis_jobs.jetstream.keys.bucket import KeyBucket
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.model import subjects
from trellis_jobs.model.keys.backlog import Admission, Admitted, Replaced, WhenFull, admit
from trellis_jobs.model.keys.slots import (
    Acquired,
    Acquisition,
    AllSlotsTaken,
    Removed,
    Renewed,
    acquire,
    drop,
    forget,
    release,
    renew,
)
from trellis_jobs.model.keys.state import KeyAddress, KeyState
from trellis_jobs.wire import keys as wire

EMPTY = key_state(max_active=2, max_queued=1000)
OTHER_KEY = key_state(address=KeyAddress(KEY.service, KEY.job_type, "0abc"))
SUBJECT = subjects.key_state(KEY)
TTL = timedelta(seconds=60)
READ = rb"PUB \$JS\.API\.DIRECT\.GET\.KV_JOBS_KEYS"
WRITE = rb"HPUB \$KV\.JOBS_KEYS"
ACKNOWLEDGED = rb'"stream":"KV_JOBS_KEYS"'


@dataclass
class Client:
    """One process's way to the bucket, with the raw server beside it."""

    raw: Probe
    bucket: KeyBucket

    async def admit(self, job: str, empty: KeyState = EMPTY) -> Admission:
        return await self.bucket.apply(
            empty, lambda state: admit(state, waiting(job), WhenFull.REJECT)
        )

    async def acquire(self, job: str, token: str) -> Acquisition:
        return await self.bucket.apply(
            EMPTY, lambda state: acquire(state, slot(job, token), waiting(job), may_overtake=True)
        )

    async def release(self, token: str) -> Removed:
        return await self.bucket.apply(EMPTY, lambda state: release(state, token))

    async def drop(self, token: str) -> Removed:
        return await self.bucket.apply(EMPTY, lambda state: drop(state, token, counted=True))

    async def put(self, data: bytes, headers: dict[str, str] | None = None) -> None:
        answer = await self.raw.connection.request(SUBJECT, data, headers=headers)
        assert "error" not in json.loads(answer.data)

    async def stored(self) -> bytes:
        subject = f"$JS.API.DIRECT.GET.{KEYS}.{SUBJECT}"
        return (await self.raw.connection.request(subject)).data

    async def writes(self) -> int:
        info = await api.request(self.raw.connection, f"STREAM.INFO.{KEYS}")
        return int(info["state"]["last_seq"])


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    async with probe(url) as raw:
        yield Client(raw, KeyBucket(raw.connection, lambda: datetime.now(UTC)))


@asynccontextmanager
async def provisioned(url: str) -> AsyncIterator[Client]:
    async with client(url) as made:
        await provision(made.raw.connection, Topology(made.raw.features))
        yield made


async def test_an_unused_key_is_empty(server: EmbeddedServer) -> None:
    async with provisioned(server.url) as one:
        assert await one.bucket.read(EMPTY) is EMPTY
        assert await one.writes() == 0


async def test_a_move_is_stored_with_the_time_it_was_made(server: EmbeddedServer) -> None:
    async with probe(server.url) as raw:
        await provision(raw.connection, Topology(raw.features))
        one = Client(raw, KeyBucket(raw.connection, lambda: after(5)))
        moved = await one.admit("a")
        stored = wire.decode(await one.stored(), expected=KEY)
    assert isinstance(stored, KeyState)
    assert stored.queued == moved.state.queued == (waiting("a"),)
    assert stored.updated_at == after(5)


async def test_a_move_that_changes_nothing_writes_nothing(server: EmbeddedServer) -> None:
    async with provisioned(server.url) as one:
        await one.admit("a")
        await one.admit("a")
        assert await one.writes() == 1


async def test_fifty_at_once_from_five_processes_are_all_let_in_once(
    server: EmbeddedServer,
) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(provisioned(server.url))
        clients = [await stack.enter_async_context(client(server.url)) for _ in range(5)]
        jobs = [f"job-{number}" for number in range(50)]
        admitted = await asyncio.gather(
            *(clients[number % 5].admit(job) for number, job in enumerate(jobs))
        )
        state = await first.bucket.read(EMPTY)
        assert all(isinstance(each, Admitted) for each in admitted)
        assert sorted(each.job_id for each in state.queued) == sorted(jobs)
        assert await first.writes() <= 50
        assert sum(each.bucket.conflicts for each in clients) > 0


async def test_a_limit_holds_however_many_ask_at_once(server: EmbeddedServer) -> None:
    limited = key_state(max_active=2, max_queued=3)
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(provisioned(server.url))
        clients = [await stack.enter_async_context(client(server.url)) for _ in range(4)]
        answers = await asyncio.gather(
            *(clients[number % 4].admit(f"job-{number}", limited) for number in range(40))
        )
        assert sum(isinstance(each, Admitted) for each in answers) == 5
        assert len((await first.bucket.read(limited)).queued) == 5


async def test_a_move_is_made_on_the_newest_state_whatever_this_process_remembers(
    server: EmbeddedServer,
) -> None:
    async with provisioned(server.url) as first, client(server.url) as second:
        await first.acquire("a", "A")
        await second.acquire("b", "B")
        assert isinstance(await first.acquire("c", "C"), AllSlotsTaken)
        assert [held.job_id for held in (await first.bucket.read(EMPTY)).active] == ["a", "b"]
        assert (await first.writes(), first.bucket.conflicts) == (2, 1)


async def test_a_move_on_an_outdated_state_keeps_what_others_wrote(server: EmbeddedServer) -> None:
    async with provisioned(server.url) as first, client(server.url) as second:
        await first.admit("a")
        await second.admit("b")
        await first.admit("c")
        found = await second.bucket.read(EMPTY)
        assert [each.job_id for each in found.queued] == ["a", "b", "c"]


async def test_a_cached_state_does_not_make_a_key_busy(server: EmbeddedServer) -> None:
    async with provisioned(server.url) as first, client(server.url) as second:
        await first.acquire("a", "A")
        await first.acquire("b", "B")
        assert isinstance(await first.acquire("c", "C"), AllSlotsTaken)
        await second.release("A")
        assert isinstance(await first.acquire("c", "C"), Acquired)


async def test_a_cached_state_decides_nothing_about_a_slot(
    server: EmbeddedServer,
) -> None:
    async with provisioned(server.url) as first, client(server.url) as second:
        await first.acquire("a", "A")
        await second.drop("A")
        again = await first.acquire("a", "A")
        assert again.state.stale_takeovers == 1
        assert await first.writes() == 3


async def test_moves_of_one_process_on_one_key_never_refuse_each_other(
    server: EmbeddedServer,
) -> None:
    jobs = [f"job-{number}" for number in range(200)]
    async with provisioned(server.url) as one:
        await asyncio.gather(*(one.admit(job) for job in jobs))
        state = await one.bucket.read(EMPTY)
        assert [each.job_id for each in state.queued] == jobs
        # The first one goes alone; those that came meanwhile go together.
        assert (one.bucket.conflicts, await one.writes()) == (0, 2)


async def test_a_move_that_fails_holds_up_no_other(server: EmbeddedServer) -> None:
    def fail(_: KeyState) -> Removed:
        raise ZeroDivisionError

    async with provisioned(server.url) as one:
        answers = await asyncio.gather(
            one.admit("a"),
            one.admit("b"),
            one.bucket.apply(EMPTY, fail),
            one.admit("c"),
            return_exceptions=True,
        )
        assert [type(answer) for answer in answers] == [
            Admitted,
            Admitted,
            ZeroDivisionError,
            Admitted,
        ]
        queued = (await one.bucket.read(EMPTY)).queued
        assert [waiting.job_id for waiting in queued] == ["a", "b", "c"]


async def test_a_caller_that_gives_up_delays_no_other(server: EmbeddedServer) -> None:
    """The first, whose write is under way; one that waits; and one that waits alone."""
    async with provisioned(server.url) as one:
        admissions = [asyncio.create_task(one.admit(f"job-{number}")) for number in range(6)]
        await asyncio.sleep(0)
        admissions[0].cancel()
        admissions[3].cancel()
        answers = await asyncio.gather(*admissions, return_exceptions=True)
        assert [isinstance(answer, Admitted) for answer in answers] == [
            False,
            True,
            True,
            False,
            True,
            True,
        ]
        queued = {waiting.job_id for waiting in (await one.bucket.read(EMPTY)).queued}
        assert {"job-1", "job-2", "job-4", "job-5"} <= queued
        assert "job-3" not in queued


async def test_after_a_move_that_fails_the_next_one_is_made(server: EmbeddedServer) -> None:
    def fail(_: KeyState) -> Removed:
        raise ZeroDivisionError

    async with provisioned(server.url) as one:
        with pytest.raises(ZeroDivisionError):
            await one.bucket.apply(EMPTY, fail)
        assert isinstance(await one.admit("a"), Admitted)


async def test_a_key_in_use_here_is_written_without_a_read_but_only_so_many_are_remembered(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "_MAX_CACHED_STATES", 3)
    addresses = [KeyAddress(KEY.service, KEY.job_type, f"{number}") for number in range(4)]
    keys = [key_state(address=address, max_queued=9) for address in addresses]
    reads = 0

    def count() -> Then:
        nonlocal reads
        reads += 1
        return Then.FORWARD

    async with (
        provisioned(server.url),
        fault_proxy(server.url) as way,
        client(way.url) as one,
    ):
        way.when_client_sends(rb"DIRECT\.GET\.", count, uses=100)
        for key in keys[:3]:
            await one.admit("a", key)
        assert reads == 3
        for key in keys[:3]:
            await one.admit("b", key)
        assert reads == 3
        await one.admit("a", keys[3])
        await one.admit("c", keys[0])
        assert reads == 5


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not JSON",
        b"{}",
        wire.encode(EMPTY).replace(b'"version":1', b'"version":2'),
        wire.encode(key_state(address=KeyAddress("other", KEY.job_type, KEY.hash))),
    ],
    ids=["empty", "no JSON", "no state", "another version", "another key"],
)
async def test_a_state_that_is_none_is_reported_and_left_byte_for_byte(
    server: EmbeddedServer, data: bytes
) -> None:
    async with provisioned(server.url) as one:
        await one.put(data)
        with pytest.raises(KeyStateMalformed) as refused:
            await one.admit("a")
        with pytest.raises(KeyStateMalformed):
            await one.bucket.read(EMPTY)
        assert EMPTY.display in str(refused.value)
        assert SUBJECT in str(refused.value)
        assert refused.value.reason
        assert (await one.stored(), await one.writes()) == (data, 1)


async def test_fields_of_other_runtimes_survive_our_moves(server: EmbeddedServer) -> None:
    theirs = key_state(
        queued=(waiting("theirs", unknown={"submissionId": "s-1"}),),
        unknown={"coalescedBySubmissionId": {"s-2": {"existingJobId": "theirs"}}},
    )
    async with provisioned(server.url) as one:
        await one.put(wire.encode(theirs))
        await one.admit("ours")
        stored: dict[str, Any] = json.loads(await one.stored())
    assert stored["coalescedBySubmissionId"] == {"s-2": {"existingJobId": "theirs"}}
    assert [each.get("submissionId") for each in stored["queued"]] == ["s-1", None]


async def test_the_limits_that_are_declared_win_over_those_that_are_stored(
    server: EmbeddedServer,
) -> None:
    async with provisioned(server.url) as one:
        await one.admit("a", key_state(max_active=1, max_queued=0))
        found = await one.bucket.read(EMPTY)
        assert (found.max_active, found.max_queued) == (2, 1000)
        assert isinstance(await one.admit("b"), Admitted)
        stored = json.loads(await one.stored())
        assert (stored["maxActive"], stored["maxQueuedPerKey"]) == (2, 1000)


@pytest.mark.parametrize("operation", ["DEL", "PURGE"])
async def test_a_key_that_an_operator_deleted_is_empty_and_usable(
    server: EmbeddedServer, operation: str
) -> None:
    async with provisioned(server.url) as one:
        await one.admit("a")
        await one.put(b"", {"KV-Operation": operation})
        assert await one.bucket.read(EMPTY) is EMPTY
        await one.admit("b")
        assert [each.job_id for each in (await one.bucket.read(EMPTY)).queued] == ["b"]


async def test_a_key_that_was_purged_is_usable_again(server: EmbeddedServer) -> None:
    async with provisioned(server.url) as one:
        await one.admit("a")
        await api.request(one.raw.connection, f"STREAM.PURGE.{KEYS}", {"filter": SUBJECT})
        await one.admit("b")
        assert [each.job_id for each in (await one.bucket.read(EMPTY)).queued] == ["b"]


@pytest.mark.parametrize("name", ["Status", "KV-Operation", "Nats-Sequence"])
async def test_a_forged_header_does_not_make_a_key_look_empty(
    server: EmbeddedServer, name: str
) -> None:
    async with provisioned(server.url) as one:
        busy = key_state(active=(slot("a"),))
        await one.put(wire.encode(busy), {name: "404"})
        assert (await one.bucket.read(key_state())).active == busy.active


@pytest.mark.parametrize("lost", ["the write", "its acknowledgement"])
async def test_a_move_is_applied_once_though_the_connection_breaks(
    server: EmbeddedServer, lost: str
) -> None:
    async with (
        provisioned(server.url) as first,
        fault_proxy(server.url) as way,
        client(way.url) as one,
    ):
        await first.acquire("a", "A")
        await first.acquire("b", "B")
        if lost == "the write":
            way.when_client_sends(WRITE, lambda: Then.CUT)
        else:
            way.when_server_sends(ACKNOWLEDGED, lambda: Then.CUT)
        await one.drop("A")
        state = await first.bucket.read(EMPTY)
        assert [held.job_id for held in state.active] == ["b"]
        assert state.stale_takeovers == 1
        assert await first.writes() == 3


async def test_a_move_is_applied_once_though_others_write_before_its_acknowledgement_is_missed(
    server: EmbeddedServer,
) -> None:
    async with (
        provisioned(server.url) as first,
        fault_proxy(server.url) as way,
        client(way.url) as one,
    ):
        await first.acquire("a", "A")
        way.when_server_sends(ACKNOWLEDGED, partial(_shut, way))
        dropping = asyncio.create_task(one.drop("A"))
        await until(partial(_writes, first, 2), "the write has arrived")
        await first.admit("meanwhile")
        way.admit()
        await dropping
        state = await first.bucket.read(EMPTY)
        assert (state.active, state.stale_takeovers) == ((), 1)
        assert await first.writes() == 3


def _shut(way: FaultProxy) -> Then:
    way.refuse()
    return Then.CUT


async def _writes(one: Client, count: int) -> bool:
    return await one.writes() == count


async def test_an_acquire_whose_acknowledgement_is_lost_holds_one_slot(
    server: EmbeddedServer,
) -> None:
    async with (
        provisioned(server.url) as first,
        fault_proxy(server.url) as way,
        client(way.url) as one,
    ):
        way.when_server_sends(ACKNOWLEDGED, lambda: Then.CUT)
        assert isinstance(await one.acquire("a", "A"), Acquired)
        assert (await first.bucket.read(EMPTY)).active == (slot("a", "A"),)
        assert await first.writes() == 1


async def test_a_replacement_whose_acknowledgement_is_lost_still_says_whom_it_replaced(
    server: EmbeddedServer,
) -> None:
    full = key_state(max_active=1, max_queued=0)
    async with (
        provisioned(server.url) as first,
        fault_proxy(server.url) as way,
        client(way.url) as one,
    ):
        await first.admit("old", full)
        way.when_server_sends(ACKNOWLEDGED, lambda: Then.CUT)
        answer = await one.bucket.apply(
            full, lambda state: admit(state, waiting("new"), WhenFull.REPLACE_OLDEST)
        )
        assert isinstance(answer, Replaced)
        assert answer.replaced.job_id == "old"
        assert [each.job_id for each in (await first.bucket.read(full)).queued] == ["new"]


async def test_a_closed_connection_is_an_answer_too(server: EmbeddedServer) -> None:
    async with provisioned(server.url) as one:
        await one.raw.connection.close()
        with pytest.raises(NotConfirmed, match="the connection was closed"):
            await one.bucket.read(EMPTY)


@pytest.mark.parametrize("unheard", [READ, WRITE], ids=["reads", "writes"])
async def test_a_server_that_says_nothing_is_not_asked_for_ever(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, unheard: bytes
) -> None:
    monkeypatch.setattr(bucket, "ACK_TIMEOUT", 0.01)
    async with provisioned(server.url), fault_proxy(server.url) as way, client(way.url) as one:
        way.when_client_sends(unheard, lambda: Then.SWALLOW, uses=1000)
        with pytest.raises(NotConfirmed) as unsure:
            await one.admit("a")
        assert "within 0.15 s" not in str(unsure.value)  # each took until the next sweep
        way.to_server.clear()
        monkeypatch.undo()
        assert isinstance(await one.admit("a"), Admitted)


async def test_a_server_killed_again_and_again_loses_and_doubles_nothing(
    server: EmbeddedServer,
) -> None:
    let_in: list[str] = []

    async def keep_asking(one: Client, name: str) -> None:
        for number in range(60):
            job = f"{name}-{number}"
            assert isinstance(await one.admit(job), Admitted)
            let_in.append(job)

    async with provisioned(server.url) as first, client(server.url) as second:
        asking = asyncio.gather(keep_asking(first, "one"), keep_asking(second, "two"))
        for threshold in (20, 50, 80):
            await until(partial(_has, let_in, threshold), f"{threshold} jobs are let in")
            server.kill()
            server.restart()
        await asking
        state = await first.bucket.read(EMPTY)
        assert sorted(each.job_id for each in state.queued) == sorted(let_in)
        assert len(let_in) == len(set(let_in)) == 120


def _has(jobs: list[str], count: int) -> bool:
    return len(jobs) >= count


async def test_a_bucket_that_is_away_for_a_moment_is_waited_for(server: EmbeddedServer) -> None:
    turned_away = asyncio.Event()

    def note() -> Then:
        turned_away.set()
        return Then.FORWARD

    async with (
        provisioned(server.url) as first,
        fault_proxy(server.url) as way,
        client(way.url) as one,
    ):
        await api.request(first.raw.connection, f"STREAM.DELETE.{KEYS}")
        way.when_server_sends(rb"NATS/1.0 503", note)
        asking = asyncio.create_task(one.admit("a"))
        await turned_away.wait()
        await provision(first.raw.connection, Topology(first.raw.features))
        assert isinstance(await asking, Admitted)


async def test_every_update_of_a_queues_keys_wakes_its_watchers(server: EmbeddedServer) -> None:
    hints: list[str] = []
    other_type = key_state(address=KeyAddress(KEY.service, "another", KEY.hash))
    async with provisioned(server.url) as one, client(server.url) as second:
        whose = (KEY.service, KEY.job_type, KEY.bucket)
        watch = await second.bucket.watch(whose, lambda key, _: hints.append(key))
        await second.raw.connection.flush()
        for empty in (EMPTY, other_type, OTHER_KEY):
            await one.admit("a", empty)
        await until(lambda: len(hints) == 2, "both are hinted")
        assert hints == [KEY.hash, "0abc"]
        await watch()
        await one.admit("b")
        await second.raw.connection.flush()
        assert len(hints) == 2


async def test_what_is_read_after_a_hint_is_never_older_than_the_hint(
    server: EmbeddedServer,
) -> None:
    async with provisioned(server.url) as one, client(server.url) as second:
        await _follow_each_hint(one, second, rounds=500)


async def _follow_each_hint(one: Client, second: Client, rounds: int) -> None:
    hinted = {KEY.hash: asyncio.Event(), OTHER_KEY.address.hash: asyncio.Event()}
    # The last writer is not refused, and a refused write would send a hint too (D22).
    await _replace_all(one, "the last one")
    whose = (KEY.service, KEY.job_type, KEY.bucket)
    await second.bucket.watch(whose, lambda key, _: hinted[key].set())
    while not hinted[OTHER_KEY.address.hash].is_set():
        # Servers of a cluster tell each other of a subscription when they get round to it.
        await _replace_all(one, "anything", OTHER_KEY)
        await second.raw.connection.flush()
    for number in range(rounds):
        hinted[KEY.hash].clear()
        writing = asyncio.create_task(_replace_all(one, f"job-{number}"))
        await hinted[KEY.hash].wait()
        found = await second.bucket.read(EMPTY)
        assert [held.job_id for held in found.active] == [f"job-{number}"]
        await writing


async def _replace_all(one: Client, job: str, empty: KeyState = EMPTY) -> None:
    def move(state: KeyState) -> Acquisition:
        running = (held.job_id for held in state.active)
        emptied = forget(state, *running, seen=state).state
        return acquire(emptied, slot(job, job), waiting(job), may_overtake=True)

    await one.bucket.apply(empty, move)


async def test_on_three_replicas_no_lagging_answer_is_trusted() -> None:
    """Each server answers reads itself; two of the three are not the leader."""
    with cluster() as nodes:
        await nodes.until_ready()
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(client(url)) for url in nodes.url.split(",")]
            raw = clients[0].raw
            await provision(raw.connection, Topology(raw.features, replicas=3))
            for number in range(600):
                await _hold_and_let_go(clients[number % 3], f"token-{number}")
            for second in clients:
                await _follow_each_hint(clients[0], second, rounds=100)


async def _hold_and_let_go(one: Client, token: str) -> None:
    """Each step must read the one before: otherwise the slot would seem lost or would leak."""
    assert isinstance(await one.acquire("a", token), Acquired)
    renewed = await one.bucket.apply(
        EMPTY, lambda state: renew(state, token, at=after(30), ttl=TTL)
    )
    assert isinstance(renewed, Renewed)
    left = await one.release(token)
    assert left.state.active == ()
    assert (await one.bucket.read(EMPTY)).active == ()
