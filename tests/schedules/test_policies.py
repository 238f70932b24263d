"""What becomes of ticks after an outage or a pause, and of ticks whose previous job lives."""

from __future__ import annotations

from typing import Any

import pytest

from tests.schedules.lab import (
    MINUTE,
    TASK,
    assert_one_job_per_tick,
    clock,
    clock_worker,
    clockwork,
    expected,
    last_minute,
)
from tests.support.example_service import Task
from tests.support.facts import until
from trellis_jobs import Every
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import utc_now
from trellis_jobs.model.schedules.record import Pause, SkipReason
from trellis_jobs.model.states import JobState

WAIT = Task(do="wait")


async def test_after_an_outage_skip_creates_no_jobs_for_missed_ticks(
    server: EmbeddedServer,
) -> None:
    jobs = clock({"pulse": Every(1, payload=TASK, catch_up="skip")})
    async with clockwork(server.url) as found:
        async with clock_worker(server.url, jobs):
            await found.until_ticks("pulse", 1)
        outage = await found.leave_record(jobs, "pulse", decided_until=utc_now() - 30 * MINUTE)
        before = len(await found.ticks())
        async with clock_worker(server.url, jobs):
            run = await found.until_run("pulse", lambda run: run.skipped is SkipReason.MISSED)
            ticks = await found.until_ticks("pulse", before + 1)
    assert run.count == 1000  # as far as they are counted
    assert all(tick > outage.decided_until + 29 * MINUTE for tick in ticks)


async def test_after_an_outage_once_creates_a_job_for_the_newest_tick(
    server: EmbeddedServer,
) -> None:
    jobs = clock({"pulse": Every(60, payload=TASK, catch_up="once")})
    newest = last_minute()
    async with clockwork(server.url) as found:
        async with clock_worker(server.url, jobs):
            await found.until_record("pulse", lambda _: True)
        await found.leave_record(jobs, "pulse", decided_until=newest - 10 * MINUTE)
        async with clock_worker(server.url, jobs), clock_worker(server.url, jobs):
            record = await found.until_record("pulse", lambda r: r.runs and not r.unfinished)
            ticks = await found.ticks()
    assert ticks[0] >= newest
    assert_one_job_per_tick(ticks, MINUTE)
    assert record.runs[0].skipped is SkipReason.MISSED
    assert record.runs[0].count >= 9


async def test_after_an_outage_all_creates_jobs_for_the_newest_ticks_up_to_the_limit(
    server: EmbeddedServer,
) -> None:
    jobs = clock({"pulse": Every(60, payload=TASK, catch_up="all", max_catch_up=20)})
    newest = last_minute()
    async with clockwork(server.url) as found:
        async with clock_worker(server.url, jobs):
            await found.until_record("pulse", lambda _: True)
        await found.leave_record(jobs, "pulse", decided_until=newest - 100 * MINUTE)
        async with clock_worker(server.url, jobs), clock_worker(server.url, jobs):
            await found.until_record("pulse", lambda r: r.runs and not r.unfinished)
            ticks = await found.ticks()
    assert ticks[:19] == expected(ticks[0], ticks[18], MINUTE)
    assert ticks[-1] >= newest
    assert_one_job_per_tick(ticks, MINUTE)
    assert len(ticks) <= 21  # another minute may have begun


@pytest.mark.parametrize(("catch_up", "jobs_made"), [("skip", 0), ("once", 1), ("all", 10)])
async def test_when_a_pause_ends_the_catch_up_policy_decides_about_its_ticks(
    server: EmbeddedServer, catch_up: Any, jobs_made: int
) -> None:
    began = utc_now().replace(microsecond=0) - 600 * MINUTE
    start = began - 30 * MINUTE
    jobs = clock({"pulse": Every(3600, payload=TASK, start=start, catch_up=catch_up)})
    async with clockwork(server.url) as found, clock_worker(server.url, jobs) as bench:
        await found.until_record("pulse", lambda _: True)
        await found.leave_record(jobs, "pulse", decided_until=began, paused=Pause(since=began))
        resumed = await bench.jobs.tick.schedules.resume("pulse")
        assert resumed.paused is None
        record = await found.until_record("pulse", lambda r: r.runs and not r.unfinished)
        ticks = await found.ticks()
    assert len(ticks) == jobs_made
    assert ticks == [run.tick for run in record.runs if run.job_id]
    if catch_up == "skip":
        assert [(run.skipped, run.count) for run in record.runs] == [(SkipReason.PAUSED, 10)]


async def test_skip_creates_no_job_as_long_as_the_previous_one_lives(
    server: EmbeddedServer,
) -> None:
    jobs = clock({"pulse": Every(1, payload=WAIT, overlap="skip")}, concurrency=5)
    async with clockwork(server.url) as found, clock_worker(server.url, jobs) as bench:
        await until(lambda: len(bench.active) == 1, "the first job runs")
        (first,) = bench.active
        run = await found.until_run("pulse", lambda run: run.skipped is SkipReason.OVERLAP)
        assert [job.job.job_id for job in await found.jobs()] == [first]
        bench.go.set()
        assert (await found.until_ticks("pulse", 2))[1] > run.tick


async def test_allow_creates_jobs_beside_the_previous_one(server: EmbeddedServer) -> None:
    jobs = clock({"pulse": Every(1, payload=WAIT, overlap="allow")}, concurrency=5)
    async with clock_worker(server.url, jobs) as bench:
        await until(lambda: len(bench.active) >= 2, "two jobs run at once")


async def test_replace_cancels_a_job_that_waits(server: EmbeddedServer) -> None:
    jobs = clock({"pulse": Every(1, payload=WAIT, overlap="replace")})
    async with clockwork(server.url) as found, clock_worker(server.url, jobs, ["other"]):
        await found.until_ticks("pulse", 3)
        for created in (await found.jobs())[:2]:
            head = await found.raw.events.head(created.job)
            assert head is not None
            assert head.status.state is JobState.CANCELLED


async def test_replace_leaves_a_job_alone_that_runs(server: EmbeddedServer) -> None:
    jobs = clock({"pulse": Every(1, payload=WAIT, overlap="replace")}, concurrency=1)
    async with clockwork(server.url) as found, clock_worker(server.url, jobs) as bench:
        await until(lambda: len(bench.active) == 1, "the first job runs")
        (first,) = bench.active
        await found.until_ticks("pulse", 4)
        assert list(bench.active) == [first]
        assert bench.cancelled == []


async def test_cancel_running_cancels_the_previous_job(server: EmbeddedServer) -> None:
    jobs = clock({"pulse": Every(1, payload=WAIT, overlap="cancel-running")}, concurrency=5)
    async with clockwork(server.url) as found, clock_worker(server.url, jobs) as bench:
        await until(lambda: len(bench.cancelled) >= 2, "two handlers are cancelled")
        made = [job.job.job_id for job in await found.jobs()]
        assert bench.cancelled[:2] == made[:2]
