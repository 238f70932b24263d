"""A worker process is killed with SIGKILL at every step; the job still ends exactly once."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.example_service import Report, Task
from tests.support.facts import until
from tests.support.fault_proxy import FaultProxy, Then, fault_proxy
from tests.support.lab import Probe, probe, producer, worker
from tests.support.worker_process import WorkerProcess, worker_process
from trellis_jobs import JobDead, JobRef
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.job import Applied, Job, reduce
from trellis_jobs.model.states import JobState


async def legal_history(raw: Probe, ref: JobRef[Report]) -> list[EventKind]:
    """The kinds of the job's events, each of which the reducer accepts."""
    job: Job | None = None
    entries = await raw.events.history(ref.address)
    for entry in entries:
        applied = reduce(job, entry)
        assert isinstance(applied, Applied), f"{entry} is not legal"
        job = applied.job
    return [entry.event.kind for entry in entries]


async def until_noted(raw: Probe, ref: JobRef[Report]) -> None:
    async def noted() -> bool:
        return EventKind.STALE_COMPLETION_IGNORED in await raw.kinds(ref)

    await until(noted, "the old attempt leaves its note")


def killed_when(
    proxy: FaultProxy, victim: WorkerProcess, pattern: bytes, then: Then
) -> Callable[[], bool]:
    """Whether it was; to be called before there is anything that could match."""
    killed = False

    def kill() -> Then:
        nonlocal killed
        victim.kill()
        killed = True
        return then

    proxy.when_client_sends(pattern, kill)
    return lambda: killed


CRASHES = [
    pytest.param(rb"HPUB \S+\.started ", Then.SWALLOW, ["completed"], 1, id="before started"),
    pytest.param(
        rb"HPUB \S+\.started ", Then.FORWARD, ["retry", "completed"], 2, id="after started"
    ),
    pytest.param(
        rb"HPUB \S+\.completed ", Then.SWALLOW, ["retry", "completed"], 2, id="before outcome"
    ),
    pytest.param(rb"PUB \$JS\.ACK\.\S+ .*\+ACK", Then.SWALLOW, ["completed"], 1, id="before ack"),
]


@pytest.mark.parametrize(("pattern", "then", "later", "tries"), CRASHES)
async def test_killed_at_any_step_the_job_still_ends_exactly_once(
    server: EmbeddedServer, tmp_path: Path, pattern: bytes, then: Then, later: list[str], tries: int
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        fault_proxy(server.url) as way,
    ):
        with worker_process(way.url, tmp_path / "victim") as victim:
            await victim.until_ready()
            is_killed = killed_when(way, victim, pattern, then)
            ref = await jobs.work.create(Task(text="once"))
            await until(is_killed, "the worker is killed")
        async with worker(server.url, "work"):
            report = await ref.wait(timeout=20)
            await raw.until_empty()
        assert report.tries == tries
        history = await legal_history(raw, ref)
        assert Counter(history)[EventKind.COMPLETED] == 1
        assert [kind for kind in history if kind not in ("created", "started")] == later


async def test_killed_during_the_handler_the_job_runs_again(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        with worker_process(server.url, tmp_path / "victim") as victim:
            await victim.until_ready()
            ref = await jobs.work.create(Task(do="wait"))
            await victim.until_running(ref.id)
            victim.kill()
        async with worker(server.url, "work") as bench:
            bench.go.set()
            assert (await ref.wait(timeout=20)).tries == 2
        history = await legal_history(raw, ref)
        assert history == ["created", "started", "retry", "started", "completed"]
        [error] = (await ref.get()).errors
        assert error.type == "worker_death"


async def test_killed_on_its_last_try_the_next_worker_records_the_loss_and_the_death(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        with worker_process(server.url, tmp_path / "victim", "single") as victim:
            await victim.until_ready()
            ref = await jobs.single.create(Task(do="wait"))
            await victim.until_running(ref.id)
            victim.kill()
        async with worker(server.url, "single") as bench:
            with pytest.raises(JobDead, match="died: its last heartbeat was"):
                await ref.wait(timeout=20)
            await raw.until_empty()
            assert bench.runs == []
        assert await legal_history(raw, ref) == ["created", "started", "dead"]


async def test_a_worker_frozen_past_its_lease_cannot_finish_its_old_attempt(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        with worker_process(server.url, tmp_path / "frozen") as frozen:
            await frozen.until_ready()
            ref = await jobs.work.create(Task(do="wait"))
            await frozen.until_running(ref.id)
            frozen.send(signal.SIGSTOP)
            async with worker(server.url, "work") as bench:
                await bench.until_running(ref)
                frozen.let_go()
                frozen.send(signal.SIGCONT)
                await until_noted(raw, ref)
                assert (await ref.get()).state is JobState.ACTIVE
                assert (await raw.consumer("work"))["num_ack_pending"] == 1
                bench.go.set()
                assert (await ref.wait(timeout=20)).tries == 2
                await raw.until_empty()
        history = await legal_history(raw, ref)
        assert Counter(history)[EventKind.COMPLETED] == 1


async def test_two_workers_that_race_for_a_redelivered_job_leave_one_outcome(
    server: EmbeddedServer,
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        fault_proxy(server.url) as way,
        worker(way.url, "work") as first,
    ):
        ref = await jobs.work.create(Task(do="wait"))
        await first.until_running(ref)
        way.freeze()
        async with worker(server.url, "work") as second:
            await second.until_running(ref)
            first.go.set()
            way.thaw()
            await until_noted(raw, ref)
            assert (await ref.get()).state is JobState.ACTIVE
            assert (await raw.consumer("work"))["num_ack_pending"] == 1
            second.go.set()
            assert (await ref.wait(timeout=20)).tries == 2
            await raw.until_empty()
        assert Counter(await legal_history(raw, ref))[EventKind.COMPLETED] == 1


async def test_a_worker_frozen_past_its_lease_stops_a_handler_that_lost_its_job(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs:
        # One slot, so no pull is open: a redelivery to this worker cannot tell it instead.
        with worker_process(server.url, tmp_path / "frozen", concurrency=1) as frozen:
            await frozen.until_ready()
            ref = await jobs.work.create(Task(do="wait"))
            await frozen.until_running(ref.id)
            frozen.send(signal.SIGSTOP)
            async with worker(server.url, "work") as bench:
                await bench.until_running(ref)
                bench.go.set()
                assert (await ref.wait(timeout=20)).tries == 2
            frozen.send(signal.SIGCONT)
            await until(lambda: frozen.cancelled == [ref.id], "the old handler is cancelled")
