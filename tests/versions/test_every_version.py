"""The core promises on every supported server version, and what each version says it lacks."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.example_service import Task
from tests.support.fault_proxy import Then, fault_proxy
from tests.support.lab import probe, producer, until_state, worker
from tests.support.servers import NEWEST, VERSIONS, start_version
from tests.support.worker_process import worker_process
from trellis_jobs import JobCancelled, JobDead
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.states import JobState

LACKS = {
    "2.10.26": {
        "guarded appends",
        "message TTL",
        "consumer pause",
        "atomic batches",
        "message schedules",
        "fast batches",
        "durable sourcing",
    },
    "2.11.11": {"atomic batches", "message schedules", "fast batches", "durable sourcing"},
    "2.12.8": {"fast batches", "durable sourcing"},
    "2.14.6": set(),
    NEWEST: set(),
}


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def server(version: str) -> Iterator[EmbeddedServer]:
    with start_version(version) as running:
        yield running


async def test_a_start_says_what_the_server_lacks(
    server: EmbeddedServer, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with producer(server.url):
            pass
    said = [r.getMessage() for r in caplog.records if " lacks " in r.getMessage()]
    lacking = {line.partition(" lacks ")[2].partition(" (")[0] for line in said}
    assert lacking == LACKS[version]


async def test_a_job_runs_and_its_history_is_kept(server: EmbeddedServer) -> None:
    async with worker(server.url, "work") as bench, probe(server.url) as raw:
        ref = await bench.jobs.work.create(Task(text="hello"))
        report = await ref.wait(timeout=10)
        assert (report.text, report.tries) == ("hello", 1)
        assert await raw.kinds(ref) == ["created", "started", "completed"]
        await raw.until_empty()


async def test_a_failed_try_is_repeated_after_its_delay(server: EmbeddedServer) -> None:
    async with worker(server.url, "work") as bench:
        ref = await bench.jobs.work.create(Task(do="later", seconds=0.3))
        assert (await ref.wait(timeout=10)).tries == 2
        (gap,) = [
            later.at - earlier.at
            for earlier, later in pairwise(await ref.events())
            if earlier.kind is EventKind.RETRY
        ]
        assert gap >= timedelta(seconds=0.3)


async def test_a_job_that_fails_every_try_is_dead(server: EmbeddedServer) -> None:
    async with worker(server.url, "work") as bench, probe(server.url) as raw:
        ref = await bench.jobs.work.create(Task(do="always fail", text="no disk"))
        with pytest.raises(JobDead, match="no disk"):
            await ref.wait(timeout=10)
        assert (await ref.get()).tries == 3
        await raw.until_empty()


async def test_a_running_job_is_cancelled(server: EmbeddedServer) -> None:
    async with worker(server.url, "slow") as bench, probe(server.url) as raw:
        ref = await bench.jobs.slow.create(Task(do="wait"))
        await bench.until_running(ref)
        await ref.cancel("changed my mind")
        with pytest.raises(JobCancelled):
            await ref.wait(timeout=10)
        await raw.until_empty()
        assert bench.cancelled == [ref.id]


async def test_a_job_whose_worker_was_killed_runs_elsewhere(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs:
        ref = await jobs.work.create(Task(do="hang"))
        with worker_process(server.url, tmp_path, "work") as doomed:
            await doomed.until_running(ref.id)
            doomed.kill()
        async with worker(server.url, "work"):
            assert (await ref.wait(timeout=10)).tries == 2


async def test_jobs_survive_a_killed_server(server: EmbeddedServer) -> None:
    async with worker(server.url, "slow") as bench:
        running = await bench.jobs.slow.create(Task(do="wait"))
        await bench.until_running(running)
        server.kill()
        server.restart()
        waiting = await bench.jobs.slow.create(Task(text="created after the restart"))
        assert (await waiting.wait(timeout=15)).text == "created after the restart"
        bench.go.set()
        assert (await running.wait(timeout=15)).tries == 1
        assert (await running.get()).state is JobState.COMPLETED


async def test_a_created_job_whose_acknowledgement_is_lost_is_one_job(
    server: EmbeddedServer,
) -> None:
    async with fault_proxy(server.url) as proxy, producer(proxy.url) as jobs:
        lost: list[str] = []

        def lose() -> Then:
            lost.append("an acknowledgement")
            return Then.CUT

        proxy.when_server_sends(rb'"stream":"JOBS"', lose)
        ref = await jobs.work.create(Task(text="once"))
        assert lost
        async with worker(server.url, "work") as bench, probe(server.url) as raw:
            await until_state(ref, JobState.COMPLETED)
            await raw.until_empty()
            assert [job_id for job_id, _ in bench.runs] == [ref.id]
            assert await raw.kinds(ref) == ["created", "started", "completed"]
