"""The example of schedules: its report, its reminder and its snooze."""

from __future__ import annotations

from datetime import timedelta

from examples.nightly.app import READY, Region, service
from tests.support.facts import until
from trellis_jobs import ScheduleNotFound
from trellis_jobs.model.job import Job
from trellis_jobs.service.schedules import ScheduleSnapshot
from trellis_jobs.testing import ConnectService
from trellis_jobs.testing.service_log import ServiceLog


async def test_the_report_of_a_tick_creates_a_reminder_that_waits_three_days(
    connected_service: ConnectService,
) -> None:
    async with connected_service(service, workers=True):
        await until(declared, "the worker has made the schedule")
        report = await service.jobs.report.schedules.trigger("europe")
        assert (await report.wait(timeout=30)).startswith("report of eu for ")
        (reminder,) = await jobs_of("reminder")
        assert reminder.run.run_at is not None
        days = (reminder.run.run_at - reminder.created_at) / timedelta(days=1)
        assert (reminder.state, round(days)) == ("scheduled", 3)


async def test_the_schedule_is_declared_with_its_time_zone(
    connected_service: ConnectService,
) -> None:
    async with connected_service(service, workers=True):
        europe = await until(declared, "the worker has made the schedule")
        assert europe.is_declared
        assert {tick.minute for tick in europe.next_ticks()} == {0}
        assert {tick.hour for tick in europe.next_ticks(300)} == {1, 2}


async def test_a_report_without_figures_is_snoozed(connected_service: ConnectService) -> None:
    READY.discard("eu")
    try:
        async with connected_service(service, workers=True):
            ref = await service.jobs.report.create(Region(region="eu"))
            async for seen in ref.watch():
                if seen.state == "retry":
                    break
            assert (seen.tries, seen.job.status.snoozes) == (0, 1)
    finally:
        READY.add("eu")


async def declared() -> ScheduleSnapshot | None:
    try:
        return await service.jobs.report.schedules.get("europe")
    except ScheduleNotFound:
        return None


async def jobs_of(queue: str) -> list[Job]:
    log = ServiceLog(service.jobs.runtime.connected.connection, service.name)
    await log.read_new()
    return [job for address, job in log.jobs.items() if address.job_type == queue]
