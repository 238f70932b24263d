"""Stopping a worker, by signal or by call: nothing is acknowledged that did not finish."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from tests.support.example_service import Report, Task
from tests.support.facts import until
from tests.support.lab import LAB, lab_worker, probe, producer, until_state, worker
from tests.support.worker_process import worker_process
from trellis_jobs import ActiveJob, Service, Workers
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.states import JobState


async def test_term_lets_running_jobs_finish_and_exits_with_0(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs:
        with worker_process(server.url, tmp_path, "slow", grace=20) as working:
            await working.until_ready()
            running = await jobs.slow.create(Task(do="wait"))
            await working.until_running(running.id)
            working.send(signal.SIGTERM)
            await until(lambda: "worker is stopping" in working.output)
            late = await jobs.slow.create(Task())
            working.let_go()
            assert await working.until_exit() == 0
            assert [job_id for job_id, _ in working.runs] == [running.id]
        assert (await running.wait(timeout=10)).tries == 1
        assert (await late.get()).state is JobState.PENDING


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_what_does_not_finish_in_time_goes_back_with_its_try(
    server: EmbeddedServer, tmp_path: Path, number: signal.Signals
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        with worker_process(server.url, tmp_path / "first", "slow", grace=0.2) as working:
            await working.until_ready()
            ref = await jobs.slow.create(Task(do="wait"))
            await working.until_running(ref.id)
            working.send(number)
            assert await working.until_exit() == 0
        handed_back = await until_state(ref, JobState.RETRY)
        assert (handed_back.tries, [error.type for error in handed_back.errors]) == (
            0,
            ["shutdown"],
        )
        async with worker(server.url, "slow") as second:
            second.go.set()
            assert (await ref.wait(timeout=10)).tries == 1
        assert await raw.kinds(ref) == ["created", "started", "retry", "started", "completed"]


async def test_a_shutdown_gives_the_try_back_even_with_notes_in_between(
    server: EmbeddedServer,
) -> None:
    async with producer(server.url) as jobs:
        ref = await jobs.work.create(Task(do="wait"))
        for _ in range(4):  # more often than the job may be tried
            async with worker(server.url, "work", grace=0) as working:
                active = await working.until_running(ref)
                await active.progress(current=1)
                await active.log("still here")
        async with worker(server.url, "work") as working:
            working.go.set()
            assert (await ref.wait(timeout=10)).tries == 1


async def test_stop_in_process_does_the_same(server: EmbeddedServer) -> None:
    async with producer(server.url) as jobs:
        working = lab_worker()
        async with working.service.connect(server.url, workers=Workers(queues=["slow"])):
            ref = await jobs.slow.create(Task(do="wait"))
            await working.until_running(ref)
            waiting = asyncio.create_task(working.service.wait())
            await working.service.stop(grace=0)
            await waiting
            assert working.cancelled == [ref.id]
        assert (await ref.get()).state is JobState.RETRY


async def test_a_handler_that_ignores_its_interruption_does_not_hold_up_the_stop(
    server: EmbeddedServer,
) -> None:
    service = Service(LAB)
    ignoring, free = asyncio.Event(), asyncio.Event()

    @service.jobs.slow.handle
    async def ignore(active: ActiveJob[Task]) -> Report:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                ignoring.set()
        return Report(text="too late", tries=active.tries)

    async with producer(server.url) as jobs:
        async with service.connect(server.url):
            ref = await jobs.slow.create(Task())
            await until_state(ref, JobState.ACTIVE)
            await service.stop(grace=0)
            assert ignoring.is_set()
        assert (await ref.get()).state is JobState.RETRY
        free.set()


async def test_a_quiet_worker_takes_nothing_and_a_resumed_one_does(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs:
        with worker_process(server.url, tmp_path, "slow") as working:
            await working.until_ready()
            working.send(signal.SIGTSTP)
            await until(lambda: "worker is now quiet" in working.output)
            refs = await jobs.slow.create_many([Task() for _ in range(5)])
            async with worker(server.url, "slow"):
                for ref in refs:
                    await ref.wait(timeout=10)
            assert working.runs == []
            working.send(signal.SIGCONT)
            await until(lambda: "worker is now running" in working.output)
            ref = await jobs.slow.create(Task())
            await ref.wait(timeout=10)
            assert working.runs == [(ref.id, 1)]
