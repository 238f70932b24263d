"""A worker process dies at any step of a keyed job: the key becomes usable again by itself."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.given import waiting
from tests.keys.work_lab import (
    YardProcess,
    key_view,
    lease_of,
    producer,
    seconds,
    started_order,
    worker,
    yard_process,
)
from tests.support.example_service import Task
from tests.support.fault_proxy import FaultProxy, Then, fault_proxy
from tests.support.lab import probe, until_state
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.keys.slots import withdraw
from trellis_jobs.model.keys.state import KeyState, Slot
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import replace

SLACK = 10.0


def kill_when(proxy: FaultProxy, victim: YardProcess, pattern: bytes, then: Then) -> asyncio.Event:
    killed = asyncio.Event()

    def kill() -> Then:
        victim.kill()
        killed.set()
        return then

    proxy.when_client_sends(pattern, kill)
    return killed


KV_WRITE = rb"HPUB \$KV\.JOBS_KEYS\.\S+ "
ACQUIRE = KV_WRITE + rb'.*"active":\[\{'
RELEASE = KV_WRITE + rb'.*"active":\[\]'
CRASHES = [
    pytest.param(ACQUIRE, Then.SWALLOW, 1, id="before it has its slot"),
    pytest.param(ACQUIRE, Then.FORWARD, 1, id="with its slot but before started"),
    pytest.param(rb"HPUB \S+\.started ", Then.FORWARD, 2, id="after started"),
    pytest.param(rb"HPUB \S+\.completed ", Then.SWALLOW, 2, id="before the outcome"),
    pytest.param(rb"HPUB \S+\.completed ", Then.FORWARD, 1, id="after the outcome"),
    pytest.param(RELEASE, Then.SWALLOW, 1, id="before the release"),
    pytest.param(RELEASE, Then.FORWARD, 1, id="after the release"),
    pytest.param(rb"PUB \$JS\.ACK\.\S+ .*\+ACK", Then.SWALLOW, 1, id="before the ack"),
]


@pytest.mark.parametrize(("pattern", "then", "tries"), CRASHES)
async def test_killed_at_any_step_the_job_ends_once_and_the_next_of_its_key_runs_in_time(
    server: EmbeddedServer, tmp_path: Path, pattern: bytes, then: Then, tries: int
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        fault_proxy(server.url) as way,
    ):
        key = key_view(raw, jobs.brisk)
        with yard_process(way.url, tmp_path, "brisk", concurrency=1) as victim:
            await victim.until_ready()
            killed = kill_when(way, victim, pattern, then)
            ref = await jobs.brisk.create(Task())
            await killed.wait()
        async with worker(server.url, "brisk") as others:
            after_crash = time.monotonic()
            following = await jobs.brisk.create(Task())
            await following.wait(timeout=20)
            waited = time.monotonic() - after_crash
            assert (await ref.wait(timeout=20)).tries == tries
            await raw.until_empty()
            state = await key.read()
            assert set(others.begun) <= {ref.id, following.id}
        assert waited < seconds(lease_of(jobs.brisk).heartbeat_ttl) + SLACK
        assert (state.active, state.queued, state.stale_takeovers) == ((), (), 0)
        kinds = Counter(await raw.kinds(ref))
        assert (kinds[EventKind.COMPLETED], kinds[EventKind.STALE]) == (1, 0)
        assert kinds[EventKind.STARTED] == tries


async def test_killed_before_the_release_the_job_leaves_its_key_though_no_job_waits_for_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Its message is acknowledged after that, so nothing is left that could tidy up later."""
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        fault_proxy(server.url) as way,
    ):
        key = key_view(raw, jobs.brisk)
        with yard_process(way.url, tmp_path, "brisk") as victim:
            await victim.until_ready()
            killed = kill_when(way, victim, RELEASE, Then.SWALLOW)
            ref = await jobs.brisk.create(Task())
            await killed.wait()
        assert [slot.job_id for slot in (await key.read()).active] == [ref.id]
        async with worker(server.url, "brisk") as others:
            await raw.until_empty()
            state = await key.read()
            assert others.begun == []
        assert (state.active, state.queued) == ((), ())


async def test_a_job_takes_its_own_slot_back_before_the_lease_of_its_killed_worker_ends(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        key = key_view(raw, jobs.brisk)
        with yard_process(server.url, tmp_path, "brisk") as victim:
            await victim.until_ready()
            ref = await jobs.brisk.create(Task(do="wait"))
            await victim.until_running(ref)
            lost = await key.until_held_by(ref)
            following = await jobs.brisk.create(Task())
            victim.kill()
        async with worker(server.url, "brisk") as others:
            await others.until_running(ref)
            held = await key.until_held_by(ref)
            assert held.token != lost.token
            assert len((await key.read()).active) == 1
            others.go.set()
            assert (await ref.wait(timeout=20)).tries == 2
            await following.wait(timeout=20)
            assert (await key.until_empty()).stale_takeovers == 0
        assert EventKind.STALE not in await raw.kinds(ref)
        assert await started_order(raw, [ref, following]) == [ref.id, ref.id, following.id]


def left_behind(job_id: str, ttl: timedelta, since: int = 0) -> Slot:
    now = datetime.now(UTC)
    return Slot(
        job_id=job_id,
        token="attempt-that-died",  # noqa: S106
        instance="worker-that-died",
        started_at=now,
        heartbeat_at=now,
        expires_at=now + ttl,
        tries=1,
        since=since,
    )


async def test_a_slot_left_for_a_job_that_is_over_is_free_at_the_latest_when_its_lease_ends(
    server: EmbeddedServer,
) -> None:
    """Its outcome is in the log and its message is gone: nothing of it will come again."""
    async with producer(server.url) as jobs, probe(server.url) as raw:
        key, ttl = key_view(raw, jobs.brisk), lease_of(jobs.brisk).heartbeat_ttl
        async with worker(server.url, "brisk"):
            ref = await jobs.brisk.create(Task())
            await ref.wait(timeout=20)
            await raw.until_empty()
            await key.change(_adding(left_behind(ref.id, ttl)))
            begun = time.monotonic()
            following = await jobs.brisk.create(Task())
            await following.wait(timeout=20)
            waited = time.monotonic() - begun
            assert (await key.until_empty()).stale_takeovers == 0
        assert waited < seconds(ttl) + SLACK
        assert await raw.kinds(ref) == ["created", "started", "completed"]


async def test_a_slot_left_for_a_start_that_never_came_is_free_when_its_lease_ends(
    server: EmbeddedServer,
) -> None:
    """The job itself is not due for long, so it cannot take its slot back."""
    async with producer(server.url) as jobs, probe(server.url) as raw:
        key, ttl = key_view(raw, jobs.brisk), lease_of(jobs.brisk).heartbeat_ttl
        async with worker(server.url, "brisk"):
            ref = await jobs.brisk.create(Task(do="later", seconds=60))
            await until_state(ref, JobState.RETRY)
            await key.until_queued(1)
            head = await raw.events.head(ref.address)
            assert head is not None
            await key.change(_adding(left_behind(ref.id, ttl, head.sequence)))
            begun = time.monotonic()
            following = await jobs.brisk.create(Task())
            await following.wait(timeout=20)
            waited = time.monotonic() - begun
        assert waited < seconds(ttl) + SLACK
        # The attempt that had the slot is refused if it starts after all, because of the note.
        assert await raw.kinds(ref) == ["created", "started", "retry", "staleCompletionIgnored"]
        job = await ref.get()
        assert (job.state, job.tries) == (JobState.RETRY, 1)
        assert (await key.read()).stale_takeovers == 0


async def test_a_slot_of_a_job_that_never_was_is_free_when_its_lease_ends(
    server: EmbeddedServer,
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        key, ttl = key_view(raw, jobs.brisk), lease_of(jobs.brisk).heartbeat_ttl
        await key.change(_adding(left_behind("01JQNEVERWAS00000000000000", ttl)))
        async with worker(server.url, "brisk"):
            begun = time.monotonic()
            ref = await jobs.brisk.create(Task())
            await ref.wait(timeout=20)
            assert time.monotonic() - begun < seconds(ttl) + SLACK
            assert (await key.until_empty()).stale_takeovers == 0


async def test_a_job_that_was_queued_and_never_created_blocks_no_other(
    server: EmbeddedServer,
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        key = key_view(raw, jobs.calm)
        absent = waiting("01JQNEVERWAS00000000000000", created_at=datetime.now(UTC))
        await key.change(lambda state: replace(state, queued=(absent,)))
        async with worker(server.url, "calm"):
            begun = time.monotonic()
            ref = await jobs.calm.create(Task())
            await ref.wait(timeout=20)
            assert time.monotonic() - begun < SLACK


def _adding(slot: Slot) -> Callable[[KeyState], KeyState]:
    return lambda state: replace(withdraw(state, slot.job_id).state, active=(*state.active, slot))
