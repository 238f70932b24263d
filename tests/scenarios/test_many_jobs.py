"""Volume: every job runs once, on whichever worker gets it."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from pathlib import Path

import pytest

from tests import given
from tests.support.example_service import Task
from tests.support.facts import DEADLINE, until
from tests.support.lab import Probe, probe, producer, worker
from tests.support.worker_process import worker_process
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import NotConfirmed
from trellis_jobs.jetstream.client import api
from trellis_jobs.model.values import replace
from trellis_jobs.worker.running_job import RunningJob


async def test_an_outage_costs_many_jobs_one_timeout_and_not_one_each(
    server: EmbeddedServer,
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.work.create(Task())
        server.kill()
        begun = [given.created(job=replace(ref.address, job_id=f"many-{n}")) for n in range(100)]
        async with asyncio.timeout(DEADLINE):
            answers = await raw.events.append_first_many(begun, timeout=1.0)
        assert [type(answer) for answer in answers] == [NotConfirmed] * len(begun)
        assert all("within 1 s" in str(answer) for answer in answers)
        with pytest.raises(NotConfirmed, match=r"within 0\.1 s"):
            await raw.events.append_first(begun[0], timeout=0.1)


async def test_two_thousand_jobs_through_two_processes_complete_once_each(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        with (
            worker_process(server.url, tmp_path / "a", "slow", concurrency=50) as one,
            worker_process(server.url, tmp_path / "b", "slow", concurrency=50) as two,
        ):
            await one.until_ready()
            await two.until_ready()
            refs = await jobs.slow.create_many([Task(text=str(n)) for n in range(2000)])

            async def all_done() -> bool:
                return len(await completed_events(raw)) == len(refs)

            await until(all_done, "every job is completed")
            await raw.until_empty()
            assert set((await completed_events(raw)).values()) == {1}
            ran = Counter(job_id for job_id, _ in [*one.runs, *two.runs])
            assert set(ran.values()) == {1}
            assert min(len(one.runs), len(two.runs)) > 100


async def test_jobs_that_are_over_leave_nothing_to_the_garbage_collector(
    server: EmbeddedServer,
) -> None:
    async with worker(server.url, "slow") as bench, probe(server.url) as raw:
        gc.collect()
        gc.disable()
        others = attempts_in_memory()  # in threads of earlier tests that cannot be ended
        try:
            for ref in await bench.jobs.slow.create_many([Task() for _ in range(50)]):
                await ref.wait(timeout=20)
            await raw.until_empty()
            await until(lambda: attempts_in_memory() <= others, "every attempt is gone")
        finally:
            gc.enable()


def attempts_in_memory() -> set[str]:
    found = (each for each in gc.get_objects() if type(each) is RunningJob)
    return {running.attempt_context.attempt.id for running in found}


async def completed_events(raw: Probe) -> dict[str, int]:
    """How many `completed` events each job has, by subject."""
    body = {"subjects_filter": "trellis.jobs.lab.*.*.completed"}
    info = await api.request(raw.connection, "STREAM.INFO.JOBS", body)
    return dict(info["state"].get("subjects") or {})
