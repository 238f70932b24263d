"""The last heartbeat of a worker decides why its attempt was lost, not chance.

Before, three of six workers that were killed with -9 at the defaults were reported as
`visibility_timeout` and three as `worker_death`: a heartbeat expired 30 s after it was sent, and
the job was redelivered 30 s after its last renewal, in either order.
"""

from __future__ import annotations

import asyncio
import signal
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from tests.presence.test_heartbeats import WORK_HEARTBEATS, heartbeat, subject_of
from tests.support.example_service import Report, Task, TaskWorker
from tests.support.facts import until
from tests.support.lab import Probe, probe, producer, worker
from tests.support.worker_process import WorkerProcess, worker_process
from trellis_jobs import JobRef
from trellis_jobs.contract.topology import LOG
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import stored_message
from trellis_jobs.jetstream.control.worker_records import WorkerRecords
from trellis_jobs.jetstream.log.presence import Presence
from trellis_jobs.model.presence import WorkerHeartbeat, death_reason
from trellis_jobs.model.worker_record import declare_dead

KILLS = 10
LEASE = 1.0


def heartbeat_of(
    instance: str, *, interval: float | None, stopping: bool = False
) -> WorkerHeartbeat:
    return WorkerHeartbeat(
        service="lab",
        job_type="work",
        instance=instance,
        at=datetime.now(UTC),
        stopping=stopping,
        interval=None if interval is None else timedelta(seconds=interval),
    )


@pytest.mark.parametrize(
    ("interval", "age", "is_dead"),
    [(5.0, 9.9, False), (5.0, 10.1, True), (None, 59.0, False), (None, 61.0, True)],
)
def test_a_worker_is_dead_after_two_missed_heartbeats(
    interval: float | None, age: float, is_dead: bool
) -> None:
    beat = heartbeat_of("w", interval=interval)
    assert (death_reason(beat, timedelta(seconds=age)) is not None) == is_dead


@pytest.mark.parametrize(
    ("connected_for", "is_dead"), [(None, True), (0.5, False), (14.9, False), (15.1, True)]
)
def test_silence_during_an_outage_proves_nothing(
    connected_for: float | None, is_dead: bool
) -> None:
    """Its interval is 5 s, and it may reconnect 5 s after the reader of its heartbeats."""
    since = None if connected_for is None else timedelta(seconds=connected_for)
    reason = death_reason(heartbeat_of("w", interval=5), timedelta(minutes=1), since)
    assert (reason is not None) == is_dead


async def errors_after_a_takeover(ref: JobRef[Report]) -> list[str]:
    await ref.wait(timeout=20)
    job = await ref.get()
    return [error.type for error in job.errors]


async def test_every_worker_that_is_killed_is_reported_as_dead(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Each is killed at another moment between two renewals of its lease."""
    async with producer(server.url) as jobs:
        refs = []
        for number in range(KILLS):
            ref = await jobs.work.create(Task(do="hang"))
            with worker_process(server.url, tmp_path / str(number), "work") as victim:
                await victim.until_running(ref.id)
                await asyncio.sleep(number * LEASE / KILLS / 2)
                victim.kill()
            refs.append(ref)
            async with worker(server.url, "work"):
                assert await errors_after_a_takeover(ref) == ["worker_death"]


async def test_a_worker_that_is_frozen_until_its_job_is_taken_over_is_reported_as_dead(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Like a dead worker it sends nothing; when it continues, its attempt is lost."""
    async with producer(server.url) as jobs:
        ref = await jobs.work.create(Task(do="hang"))
        with worker_process(server.url, tmp_path, "work") as frozen:
            await frozen.until_running(ref.id)
            frozen.send(signal.SIGSTOP)
            async with worker(server.url, "work"):
                assert await errors_after_a_takeover(ref) == ["worker_death"]
            frozen.send(signal.SIGCONT)
            await until(lambda: ref.id in frozen.cancelled, "its handler is stopped")


async def test_a_worker_whose_heartbeats_come_while_its_lease_runs_out_is_not_reported_as_dead(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """The test sends heartbeats in its name: it counts as alive while its job is redelivered."""
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.work.create(Task(do="hang"))
        with worker_process(server.url, tmp_path, "work") as lost:
            await lost.until_running(ref.id)
            instance = subject_of(await heartbeat(raw)).split(".")[5]
            lost.kill()
        beating = asyncio.create_task(keep_beating(raw, instance))
        async with worker(server.url, "work"):
            assert await errors_after_a_takeover(ref) == ["visibility_timeout"]
        beating.cancel()
        (error,) = (await ref.get()).errors
        assert error.message == f"worker {instance} did not renew its lease within 1 s"


async def test_after_an_outage_that_was_longer_than_the_lease_no_worker_is_reported_as_dead(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """No worker could send heartbeats. The other one is stopped: it would adopt its job first."""
    async with worker(server.url, "work") as bench:
        with worker_process(server.url, tmp_path, "work") as other:
            await other.until_ready()
            ref = await started_by(other, bench)
            server.kill()
            other.send(signal.SIGSTOP)
            await asyncio.sleep(2 * LEASE)  # the subject of the test
            server.restart()
            assert await errors_after_a_takeover(ref) == ["visibility_timeout"]
            other.send(signal.SIGCONT)
            await until(lambda: ref.id in other.cancelled, "its handler is stopped")


async def started_by(other: WorkerProcess, bench: TaskWorker) -> JobRef[Report]:
    """A job that hangs in the other worker: jobs that this one starts are cancelled."""
    while True:
        ref = await bench.jobs.work.create(Task(do="hang"))
        await until(partial(_runs_in, ref.id, other, bench), "it runs")
        if ref.id not in bench.begun:
            return ref
        await ref.cancel()


def _runs_in(job_id: str, other: WorkerProcess, bench: TaskWorker) -> bool:
    return job_id in bench.begun or job_id in [ran for ran, _ in other.runs]


async def test_a_worker_that_was_declared_dead_is_reported_as_dead_although_it_sends_heartbeats(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.work.create(Task(do="hang"))
        with worker_process(server.url, tmp_path, "work") as lost:
            await lost.until_running(ref.id)
            lost.kill()
        records = WorkerRecords(raw.connection, supports_ttl=raw.features.message_ttl)
        [stored] = await records.all("lab")
        await records.change(
            stored, lambda record: declare_dead(record, by="admin-1", at=datetime.now(UTC), lost={})
        )
        instance = stored.record.profile.instance
        beating = asyncio.create_task(keep_beating(raw, instance))
        async with worker(server.url, "work"):
            assert await errors_after_a_takeover(ref) == ["worker_death"]
        beating.cancel()
        (error,) = (await ref.get()).errors
        assert error.message == f"worker {instance} died: admin-1 declared it dead"


async def keep_beating(raw: Probe, instance: str) -> None:
    presence = Presence(raw.connection, raw.features)
    while True:
        await presence.beat(heartbeat_of(instance, interval=10))
        await asyncio.sleep(0.1)


async def test_a_worker_is_present_while_a_handler_blocks_its_event_loop(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Heartbeats used to come from the event loop, so a blocking handler made the worker vanish."""
    async with producer(server.url) as jobs, probe(server.url) as raw:
        with worker_process(server.url, tmp_path, "work") as blocked:
            await blocked.until_ready()
            ref = await jobs.work.create(Task(do="block", seconds=3))
            await ref.wait(timeout=20)
        job = f"trellis.jobs.lab.work.{ref.id}"
        started = await stored_message.newest(raw.connection, LOG, f"{job}.started")
        completed = await stored_message.newest(raw.connection, LOG, f"{job}.completed")
        assert started is not None
        assert completed is not None
        assert await heartbeats_between(raw, started.sequence, completed.sequence) >= 3


async def heartbeats_between(raw: Probe, first: int, last: int) -> int:
    count = 0
    found = await stored_message.next_from(raw.connection, LOG, WORK_HEARTBEATS, first)
    while found is not None and found.sequence < last:
        count += 1
        found = await stored_message.next_from(
            raw.connection, LOG, WORK_HEARTBEATS, found.sequence + 1
        )
    return count
