"""Worker processes fire the schedules of their service: one job for each tick."""

from __future__ import annotations

from contextlib import AsyncExitStack
from itertools import pairwise

from tests.schedules.lab import (
    SECOND,
    TASK,
    assert_one_job_per_tick,
    clock,
    clock_producer,
    clock_worker,
    clockwork,
)
from tests.support.example_service import Report, Task
from tests.support.facts import until
from trellis_jobs import ActiveJob, Cron, Every, Service
from trellis_jobs.embedded import EmbeddedServer


async def test_each_tick_has_one_job_whatever_the_number_of_processes(
    server: EmbeddedServer,
) -> None:
    jobs = clock(
        {
            "pulse": Every(1, payload=TASK, catch_up="all"),
            "slower": Every(2, payload=TASK, catch_up="all"),
            "cron": Cron("* * * * * *", payload=TASK, catch_up="all"),
            "cron-slower": Cron("*/2 * * * * *", tz="Asia/Tokyo", payload=TASK, catch_up="all"),
        }
    )
    async with clockwork(server.url) as found, AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(clock_worker(server.url, jobs))
        for name, step in (("slower", 2), ("cron-slower", 2), ("pulse", 1), ("cron", 1)):
            ticks = await found.until_ticks(name, 3)
            assert_one_job_per_tick(ticks, step * SECOND)


async def test_a_handler_sees_its_tick_and_its_schedule(server: EmbeddedServer) -> None:
    jobs = clock({"pulse": Every(1, payload=TASK)})
    service, seen = Service(jobs), list[ActiveJob[Task]]()

    async def handle(active: ActiveJob[Task]) -> Report:
        seen.append(active)
        return Report(tries=active.tries)

    service.jobs.tick.handle(handle)
    async with service.connect(server.url), clockwork(server.url) as found:
        await until(lambda: len(seen) >= 2, "two jobs ran")
        assert {(active.schedule, active.payload.text) for active in seen} == {("pulse", "tick")}
        ticks = [active.scheduled_for for active in seen]
        recorded = {job.job.job_id: job.run_at for job in await found.jobs()}
        assert ticks == [recorded[active.id] for active in seen]
        assert all(tick is not None and tick.microsecond == 0 for tick in ticks)
        direct = await service.jobs.tick.create(TASK)
        await direct.wait(timeout=20)
        assert [(a.schedule, a.scheduled_for) for a in seen if a.id == direct.id] == [(None, None)]


async def test_a_worker_fires_the_schedules_of_queues_that_it_does_not_handle(
    server: EmbeddedServer,
) -> None:
    jobs = clock({"pulse": Every(1, payload=TASK)})
    async with clockwork(server.url) as found, clock_worker(server.url, jobs, ["other"]) as idle:
        await found.until_ticks("pulse", 2)
        assert idle.runs == []
        async with clock_worker(server.url, jobs, ["tick"]) as busy:
            await until(lambda: busy.runs, "the jobs run where their queue is handled")


async def test_a_process_that_only_produces_fires_nothing(server: EmbeddedServer) -> None:
    jobs = clock()
    async with clock_producer(server.url, jobs) as producer, clockwork(server.url) as found:
        await producer.tick.schedules.put("pulse", Every(1, payload=TASK, catch_up="all"))
        await until(lambda: found.due_alarms("pulse"), "the alarm of the first tick has come")
        first = (await found.record("pulse")).decided_until
        assert await found.ticks() == []
        async with clock_worker(server.url, jobs):
            ticks = await found.until_ticks("pulse", 2)
        assert ticks[0] - first <= SECOND
        assert_one_job_per_tick(ticks)


async def test_the_jobs_of_a_schedule_are_in_the_order_of_their_ticks(
    server: EmbeddedServer,
) -> None:
    jobs = clock({"pulse": Every(1, payload=TASK, jitter=1, catch_up="all")})
    async with clockwork(server.url) as found, clock_worker(server.url, jobs):
        await found.until_ticks("pulse", 4)
        made = await found.jobs()
    ticks = [job.run_at for job in made if job.run_at is not None]
    assert ticks == sorted(ticks)
    assert all(later.job.job_id > earlier.job.job_id for earlier, later in pairwise(made))
    assert all(job.run_at is not None and job.at >= job.run_at for job in made)
