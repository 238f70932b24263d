"""Jobs whose key is taken use no slot, no try and no polling, and all of them run."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from tests.given import slot, waiting
from tests.keys.work_lab import (
    all_over,
    consumer_info,
    history_of,
    key_view,
    lease_of,
    producer,
    seconds,
    started_order,
    until_out,
    without_slots,
    worker,
    yard_process,
)
from tests.support.example_service import Report, Task
from tests.support.facts import DEADLINE, until
from tests.support.fault_proxy import FaultProxy, fault_proxy
from tests.support.lab import Probe, probe
from trellis_jobs import JobRef
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.events import EventKind, Started
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import replace
from trellis_jobs.worker import parking
from trellis_jobs.worker.key_waiters import KeyWaiters


async def test_a_job_that_waits_for_its_key_takes_no_slot_of_the_worker(
    server: EmbeddedServer,
) -> None:
    """The only other worker has one slot."""
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        worker(server.url, "calm", concurrency=1) as first,
    ):
        holding = await jobs.calm.create(Task(do="wait"))
        await first.until_running(holding)
        async with worker(server.url, "calm", concurrency=1) as second:
            waiting = [await jobs.calm.create(Task()) for _ in range(5)]
            await until_out(raw, jobs.calm, 6)
            other = await jobs.calm.create(Task(key="another"))
            await other.wait(timeout=10)
            assert second.begun == [other.id]
            assert {(await ref.get()).state for ref in waiting} == {JobState.PENDING}
            first.go.set()
            for ref in waiting:
                assert (await ref.wait(timeout=10)).tries == 1


async def test_a_long_wait_uses_no_try(server: EmbeddedServer) -> None:
    """Sixty times the first backoff, and several times the deadline for an answer."""
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        worker(server.url, "brisk") as working,
    ):
        holding = await jobs.brisk.create(Task(do="wait"))
        await working.until_running(holding)
        waiting = await jobs.brisk.create(Task())
        await until_out(raw, jobs.brisk, 2)
        backoff = seconds(jobs.brisk.type.retry.delays[0])
        end = time.monotonic() + 60 * backoff
        await until(lambda: time.monotonic() > end, "it has waited long")
        job = await waiting.get()
        assert (job.state, job.tries) == (JobState.PENDING, 0)
        assert await raw.kinds(waiting) == ["created"]
        working.go.set()
        assert (await waiting.wait(timeout=10)).tries == 1
        assert (await holding.wait(timeout=10)).tries == 1
        assert await raw.kinds(waiting) == ["created", "started", "completed"]


async def test_the_log_tells_a_wait_for_the_key_from_a_wait_for_a_worker(
    server: EmbeddedServer,
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        holding, waiting = [await jobs.calm.create(Task(do="wait")) for _ in range(2)]
        created = time.monotonic()
        await until(lambda: time.monotonic() > created + 0.2, "both have waited for a worker")
        async with worker(server.url, "calm") as working:
            await working.until_running(holding)
            await until_out(raw, jobs.calm, 2)
            out = time.monotonic()
            await until(lambda: time.monotonic() > out + 0.3, "it has waited for its key")
            working.go.set()
            await waiting.wait(timeout=10)
            first, second = [await _waited_for_key(raw, ref) for ref in (holding, waiting)]
            assert first == timedelta()
            for_a_worker = await _until_started(raw, waiting) - second
            assert second > timedelta()
            assert for_a_worker >= timedelta(seconds=0.2)


async def _waited_for_key(raw: Probe, ref: JobRef[Report]) -> timedelta:
    entry = await raw.events.last(ref.address, EventKind.STARTED)
    assert entry is not None
    assert isinstance(entry.event, Started)
    assert entry.event.waited_for_key is not None
    return entry.event.waited_for_key


async def _until_started(raw: Probe, ref: JobRef[Report]) -> timedelta:
    created, started, *_ = await raw.events.history(ref.address)
    return started.event.at - created.event.at


async def test_fifty_jobs_that_wait_send_nothing_but_renewals(server: EmbeddedServer) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        worker(server.url, "brisk", concurrency=1) as first,
        fault_proxy(server.url) as way,
    ):
        holding = await jobs.brisk.create(Task(do="wait"))
        await first.until_running(holding)
        async with worker(way.url, "brisk"):
            waiting = await asyncio.gather(*(jobs.brisk.create(Task()) for _ in range(50)))
            await until_out(raw, jobs.brisk, 51)
            sent = messages_of(way)
            interval = seconds(lease_of(jobs.brisk).heartbeat_interval)
            begun = time.monotonic()
            await until(lambda: sent["renewals"] >= 50 * 6, "they were renewed some times")
            intervals = (time.monotonic() - begun) / interval
            requests = dict(sent)
            first.go.set()
            await asyncio.gather(*(ref.wait(timeout=20) for ref in waiting))
        renewals, looks, beats = (requests.pop(each, 0) for each in ("renewals", "looks", "beats"))
        # Each delivery three times in its lease, and a read of the key when its holder renews it
        # and at each renewal.
        assert renewals <= 50 * (intervals + 2)
        assert looks <= 3 * (intervals + 2)
        # The worker's own heartbeats, six in a lease, however many wait.
        assert beats <= 2 * (intervals + 2)
        assert sum(requests.values()) <= 10, requests


def messages_of(way: FaultProxy) -> Counter[str]:
    sent: Counter[str] = Counter()
    way.on_message(lambda subject: sent.update([_kind(subject)]))
    return sent


def _kind(subject: str) -> str:
    if subject.startswith("$JS.ACK."):
        return "renewals"
    if subject.startswith("trellis.jobs.workers."):
        return "beats"
    return "looks" if subject.startswith("$JS.API.DIRECT.GET.KV_JOBS_KEYS.") else subject


async def test_first_created_is_first_served(server: EmbeddedServer) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        worker(server.url, "calm") as working,
    ):
        refs = [await jobs.calm.create(Task(do="wait"))]
        await working.until_running(refs[0])
        refs += [await jobs.calm.create(Task()) for _ in range(40)]
        await until_out(raw, jobs.calm, 41)
        working.go.set()
        for ref in refs:
            await ref.wait(timeout=20)
        assert await started_order(raw, refs) == [ref.id for ref in refs]


async def test_first_created_is_first_served_over_two_processes_unless_the_first_is_slow(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """A job that does not start within 50 ms is overtaken, but not by many."""
    async with producer(server.url) as jobs, probe(server.url) as raw:
        with (
            yard_process(server.url, tmp_path / "one", "calm") as one,
            yard_process(server.url, tmp_path / "two", "calm") as two,
        ):
            await one.until_ready()
            await two.until_ready()
            refs = [await jobs.calm.create(Task(do="wait"))]
            await until(lambda: one.runs or two.runs, "the first runs")
            refs += [await jobs.calm.create(Task()) for _ in range(40)]
            await until_out(raw, jobs.calm, 41)
            one.let_go()
            two.let_go()
            for ref in refs:
                await ref.wait(timeout=20)
            assert one.runs
            assert two.runs
        places = [[ref.id for ref in refs].index(job) for job in await started_order(raw, refs)]
        overtaken = sum(1 for before, after in pairwise(places) if after < before)
        assert overtaken <= 4, places


async def test_a_hot_key_does_not_starve_the_others(server: EmbeddedServer) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        worker(server.url, "calm", concurrency=2) as working,
    ):
        holding = await jobs.calm.create(Task(key="hot", do="wait"))
        await working.until_running(holding)
        hot = await asyncio.gather(*(jobs.calm.create(Task(key="hot")) for _ in range(300)))
        cold = await jobs.calm.create(Task(key="cold"))
        await cold.wait(timeout=20)
        assert {(await ref.get()).state for ref in hot} == {JobState.PENDING}
        working.go.set()
        await asyncio.gather(*(ref.wait(timeout=40) for ref in hot))
        await each_ran_once_at_its_first_try(raw, hot)


async def test_what_finds_no_place_to_park_comes_again_and_runs(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parking, "MAX_PARKED", 20)
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        worker(server.url, "calm") as working,
    ):
        holding = await jobs.calm.create(Task(do="wait"))
        await working.until_running(holding)
        refs = await asyncio.gather(*(jobs.calm.create(Task()) for _ in range(50)))

        async def some_came_again() -> bool:
            return int((await consumer_info(raw, jobs.calm))["num_redelivered"]) > 0

        await until(some_came_again, "some came again")
        working.go.set()
        await asyncio.gather(*(ref.wait(timeout=40) for ref in refs))
        await each_ran_once_at_its_first_try(raw, refs)


async def each_ran_once_at_its_first_try(raw: Probe, refs: list[JobRef[Report]]) -> None:
    entries = await history_of(raw, refs)
    kinds = Counter(entry.event.kind for entry in entries)
    assert kinds == dict.fromkeys(["created", "started", "completed"], len(refs))
    assert {e.event.tries for e in entries if e.event.kind is EventKind.COMPLETED} == {1}


@pytest.mark.timeout(120)
async def test_a_thousand_keys_with_two_jobs_each_are_normal_load(server: EmbeddedServer) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        refs: list[JobRef[Report]] = []
        errands = [Task(key=f"key-{n // 2}", do="nap", seconds=0.005) for n in range(2000)]
        for first in range(0, 2000, 100):
            batch = errands[first : first + 100]
            refs += await asyncio.gather(*(jobs.calm.create(errand) for errand in batch))
        async with worker(server.url, "calm", concurrency=50):
            await until(lambda: all_over(raw, refs), "all ended", deadline=60)
        await each_ran_once_at_its_first_try(raw, refs)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that waiting jobs wait after each read of their key."""
    recorded: list[float] = []
    wait_for_change = KeyWaiters.wait_for_change

    async def record(waiters: KeyWaiters, seconds: float) -> bool:
        recorded.append(seconds)
        return await wait_for_change(waiters, seconds)

    monkeypatch.setattr(KeyWaiters, "wait_for_change", record)
    return recorded


async def test_the_next_job_starts_at_the_release_in_another_process(
    server: EmbeddedServer, tmp_path: Path, waits: list[float]
) -> None:
    """The worker does not poll, so only the update of the key can have woken it."""
    async with producer(server.url) as jobs, probe(server.url) as raw:
        with yard_process(server.url, tmp_path, "serene", concurrency=1) as one:
            await one.until_ready()
            holding = await jobs.serene.create(Task(do="wait"))
            await one.until_running(holding)
            async with worker(server.url, "serene") as two:
                following = await jobs.serene.create(Task())
                await until(lambda: waits, "it has seen that its key is taken")
                assert two.begun == []
                # So that the releasing worker does not have the next delivery.
                one.send(signal.SIGTSTP)
                one.let_go()
                await holding.wait(timeout=DEADLINE)
                await following.wait(timeout=DEADLINE)
                assert two.begun == [following.id]
        entries = await history_of(raw, [holding, following])
        end = next(e.event.at for e in entries if e.event.kind is EventKind.COMPLETED)
        start = [e.event.at for e in entries if e.event.kind is EventKind.STARTED][-1]
        assert start >= end


@pytest.mark.parametrize("how", ["written again", "deleted"])
async def test_a_key_that_is_freed_by_hand_is_taken_at_once(
    server: EmbeddedServer, waits: list[float], how: str
) -> None:
    """The write has no expected revision. The worker does not poll."""
    async with producer(server.url) as jobs, probe(server.url) as raw:
        key = key_view(raw, jobs.serene)
        await key.change(lambda state: replace(state, active=(slot("of-another-runtime"),)))
        async with worker(server.url, "serene"):
            ref = await jobs.serene.create(Task())
            await until(lambda: waits, "it has seen that its key is taken")
            if how == "deleted":
                await key.delete()
            else:
                await key.change(without_slots)
            assert (await ref.wait(timeout=DEADLINE)).tries == 1


async def test_a_waiting_worker_removes_a_job_that_is_over_from_the_key(
    server: EmbeddedServer,
) -> None:
    """A crash left the entry of an ended job at the head of the queue."""
    async with producer(server.url) as jobs, probe(server.url) as raw:
        key = key_view(raw, jobs.calm)
        async with worker(server.url, "calm"):
            over = await jobs.calm.create(Task())
            await over.wait(timeout=10)
        left = waiting(over.id, created_at=datetime.now(UTC) - timedelta(hours=1))
        await key.change(lambda state: replace(state, queued=(left,)))
        ref = await jobs.calm.create(Task())
        async with worker(server.url, "calm"):
            assert (await ref.wait(timeout=10)).tries == 1
            await key.until_empty()
