"""The jobs of a dead worker start elsewhere, whatever the lease of their queue.

`make workers-long` also runs what takes a minute: the same with the default settings.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from jobs_admin.config import AdminConfig
from jobs_admin.daemon import serving
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.fault_proxy import Then, fault_proxy
from tests.support.lab import Probe, probe, producer, until_state, worker
from tests.support.worker_process import worker_process
from tests.workers.records import records_of, registered_worker, the_worker, until_record
from trellis_jobs import JobRef
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.log.presence import Presence
from trellis_jobs.model import events as e
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.job_errors import Interruption
from trellis_jobs.model.states import JobState

# Seconds, as in `Service(dead_after=...)`. The worker beats every 5 s then.
DEFAULT_DEAD_AFTER: Final = 25.0
WITH_DEFAULTS: Final = (
    pytest.mark.skipif(
        "WORKERS_LONG" not in os.environ, reason="takes a minute: `make workers-long` runs it"
    ),
    pytest.mark.timeout(300),
)


@asynccontextmanager
async def admins(url: str, folder: Path, count: int = 1) -> AsyncIterator[None]:
    async with AsyncExitStack() as opened:
        for number in range(count):
            path = folder / f"admin-{number}.sqlite"
            await opened.enter_async_context(
                serving(AdminConfig(nats=url, path=path, provision=True))
            )
        yield


async def errors(raw: Probe, ref: JobRef[Any]) -> list[str]:
    """The types of the errors that ended tries of the job, in this order."""
    history = await raw.events.history(ref.address)
    return [
        entry.event.error.type for entry in history if isinstance(entry.event, e.RetryScheduled)
    ]


async def test_the_job_of_a_killed_worker_starts_elsewhere_long_before_its_lease_ends(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, admins(server.url, tmp_path), probe(server.url) as raw:
        ref = await jobs.long.create(Task(do="wait"))
        with worker_process(server.url, tmp_path / "w", "long", dead_after=2) as dying:
            await dying.until_running(ref.id)
            await until_record(raw, lambda r: r.active == {"long": (ref.id,)}, "it is reported")
            dying.kill()
        async with worker(server.url, "long") as other:
            await other.until_running(ref)
            other.go.set()
            report = await ref.wait(timeout=30)
        assert report.tries == 2
        assert await errors(raw, ref) == [Interruption.WORKER_DEATH]
        await raw.until_empty()
        dead = await until_record(
            raw, lambda r: r.verdict is not None and r.verdict.is_recovered, "it is recovered"
        )
        assert dead.record.verdict is not None
        assert dead.record.verdict.lost == {"long": (ref.id,)}


async def test_the_last_try_of_a_killed_worker_is_the_death_of_its_job(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, admins(server.url, tmp_path), probe(server.url) as raw:
        ref = await jobs.long.create(Task(do="wait"))
        for number in (1, 2):
            folder = tmp_path / f"w{number}"
            with worker_process(server.url, folder, "long", dead_after=2) as dying:
                await dying.until_running(ref.id)
                dying.kill()
        snapshot = await until_state(ref, JobState.DEAD)
        assert snapshot.last_error is not None
        assert snapshot.last_error.type == Interruption.WORKER_DEATH
        await raw.until_empty()


@pytest.mark.parametrize(
    ("dead_after", "seconds"),
    [
        pytest.param(8, 8, id="short"),
        pytest.param(DEFAULT_DEAD_AFTER, 40, marks=WITH_DEFAULTS, id="default settings"),
    ],
)
async def test_a_worker_that_was_frozen_loses_its_job_and_goes_on_under_a_new_id(
    server: EmbeddedServer, tmp_path: Path, dead_after: float, seconds: float
) -> None:
    """Its last pull ends after 5 s, so a job that is enqueued after 8 s is not delivered to it."""
    async with producer(server.url) as jobs, admins(server.url, tmp_path), probe(server.url) as raw:
        ref = await jobs.long.create(Task(do="wait"))
        with worker_process(server.url, tmp_path / "w", "long", dead_after=dead_after) as frozen:
            await frozen.until_running(ref.id)
            (before,) = await records_of(raw).all("lab")
            frozen.send(signal.SIGSTOP)
            ends_at = time.monotonic() + seconds
            async with worker(server.url, "long") as other:
                await until(lambda: ref.id in other.active, "it starts elsewhere", deadline=90)
                await until(lambda: time.monotonic() > ends_at, "it was frozen for so long")
                frozen.send(signal.SIGCONT)
                await until(lambda: frozen.cancelled == [ref.id], "the frozen handler is stopped")
                other.go.set()
                await ref.wait(timeout=30)
            former = before.record.profile
            await until_record(
                raw,
                lambda r: r.profile.pid == former.pid and r.profile.instance != former.instance,
                "it is registered again",
            )
            later = await jobs.long.create(Task())
            await later.wait(timeout=30)
        kinds = await raw.kinds(ref)
        assert kinds.count(EventKind.COMPLETED) == 1
        assert kinds.count(EventKind.STARTED) == 2
        assert EventKind.STALE_COMPLETION_IGNORED in kinds
        assert "was declared dead by jobs-admin" in frozen.output


async def test_a_job_that_was_delivered_to_a_dead_worker_and_not_started_starts_elsewhere(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """A frozen worker cannot start what the server delivers to its last pull."""
    async with producer(server.url) as jobs, admins(server.url, tmp_path), probe(server.url) as raw:
        with worker_process(server.url, tmp_path / "w", "long", dead_after=6) as frozen:
            await frozen.until_ready()
            await until_record(raw, lambda r: r.beat >= 1, "it is registered")
            frozen.send(signal.SIGSTOP)
            refs = [await jobs.long.create(Task()) for _ in range(3)]
            await until_delivered(raw, 3)
            frozen.kill()
        async with worker(server.url, "long"):
            for ref in refs:
                assert (await ref.wait(timeout=60)).tries == 1
        await raw.until_empty()


async def until_delivered(raw: Probe, count: int) -> None:
    async def delivered() -> bool:
        return int((await raw.consumer("long"))["num_ack_pending"]) == count

    await until(delivered, "the server has delivered the jobs")


@pytest.mark.parametrize(
    ("dead_after", "seconds"),
    [
        pytest.param(2, 6, id="short"),
        pytest.param(DEFAULT_DEAD_AFTER, 45, marks=WITH_DEFAULTS, id="default settings"),
    ],
)
async def test_a_worker_with_a_blocked_event_loop_keeps_its_job(
    server: EmbeddedServer, tmp_path: Path, dead_after: float, seconds: float
) -> None:
    async with admins(server.url, tmp_path), probe(server.url) as raw:
        with worker_process(server.url, tmp_path / "w", "long", dead_after=dead_after) as blocked:
            async with producer(server.url) as jobs:
                ref = await jobs.long.create(Task(do="block", seconds=seconds))
                await blocked.until_running(ref.id)
                report = await ref.wait(timeout=seconds + 60)
            assert (await the_worker(raw)).record.verdict is None
        assert report.tries == 1
        assert await raw.kinds(ref) == [EventKind.CREATED, EventKind.STARTED, EventKind.COMPLETED]


@pytest.mark.parametrize(
    ("dead_after", "seconds"),
    [
        pytest.param(2, 10, id="short"),
        pytest.param(DEFAULT_DEAD_AFTER, 45, marks=WITH_DEFAULTS, id="default settings"),
    ],
)
async def test_a_worker_that_is_cut_off_from_its_record_only_keeps_its_job(
    server: EmbeddedServer, tmp_path: Path, dead_after: float, seconds: float
) -> None:
    """Its heartbeats in the log show that it lives, for longer than it may be silent."""
    async with (
        producer(server.url) as jobs,
        admins(server.url, tmp_path),
        fault_proxy(server.url) as proxy,
        probe(server.url) as raw,
    ):
        ref = await jobs.long.create(Task(do="wait"))
        with worker_process(proxy.url, tmp_path / "w", "long", dead_after=dead_after) as cut_off:
            await cut_off.until_running(ref.id)
            proxy.when_client_sends(
                rb"HPUB trellis\.control\.jobs\.workers\.", lambda: Then.SWALLOW, uses=sys.maxsize
            )
            stored = await the_worker(raw)
            presence = Presence(raw.connection, raw.features)
            began = await presence.newest_at("lab", "long", stored.record.profile.instance)
            assert began is not None

            async def lives_on() -> bool:
                newest = await presence.newest_at("lab", "long", stored.record.profile.instance)
                return newest is not None and newest - began > timedelta(seconds=seconds)

            await until(lives_on, "it has sent heartbeats for so long", deadline=seconds + 60)
            after = await the_worker(raw)
            assert (after.revision, after.record.verdict) == (stored.revision, None)
            cut_off.let_go()
            assert (await ref.wait(timeout=30)).tries == 1
            assert "record of this worker was not written" in cut_off.output
        assert await raw.kinds(ref) == [EventKind.CREATED, EventKind.STARTED, EventKind.COMPLETED]


async def test_three_admin_runtimes_write_one_retry_for_each_lost_try(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        producer(server.url) as jobs,
        admins(server.url, tmp_path, count=3),
        probe(server.url) as raw,
    ):
        refs = [await jobs.long.create(Task(do="wait")) for _ in range(5)]
        with worker_process(server.url, tmp_path / "w", "long", dead_after=2) as dying:
            for ref in refs:
                await dying.until_running(ref.id)
            dying.kill()
        async with worker(server.url, "long") as other:
            await other.until_running(*refs)
            other.go.set()
            for ref in refs:
                assert (await ref.wait(timeout=30)).tries == 2
        for ref in refs:
            assert await errors(raw, ref) == [Interruption.WORKER_DEATH]
        await raw.until_empty()


async def test_a_job_that_began_after_the_last_beat_is_found_in_the_projection(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """The worker beats every 3 s, and dies before it has reported the job."""
    async with producer(server.url) as jobs, admins(server.url, tmp_path), probe(server.url) as raw:
        with worker_process(server.url, tmp_path / "w", "long", dead_after=15) as dying:
            await dying.until_ready()
            beaten = await until_record(raw, lambda r: r.beat >= 2, "the worker has just beaten")
            ref = await jobs.long.create(Task(do="wait"))
            await dying.until_running(ref.id)
            dying.kill()
        silent = await until_record(raw, lambda r: True, "its record")
        assert (silent.revision, silent.record.active) == (beaten.revision, {})
        async with worker(server.url, "long") as other:
            await until(lambda: ref.id in other.active, "it starts elsewhere", deadline=60)
            other.go.set()
            assert (await ref.wait(timeout=30)).tries == 2
        assert await errors(raw, ref) == [Interruption.WORKER_DEATH]


async def test_a_worker_that_stops_is_not_declared_dead(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with admins(server.url, tmp_path), probe(server.url) as raw:
        async with registered_worker(server.url, "work", dead_after=1):
            pass
        async with registered_worker(server.url, "single", dead_after=1):
            beaten = await until_record(raw, lambda r: r.beat >= 15, "three times dead_after")
        assert beaten.record.verdict is None
        assert [stored.record.verdict for stored in await records_of(raw).all()] == [None, None]
