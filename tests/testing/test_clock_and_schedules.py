"""Schedules follow the clock of a test, with the code that fires them in production."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from tests.support.example_service import ExampleJobs, example_jobs
from trellis_jobs import ActiveJob, Cron, Every, ScheduleDeclared, Service
from trellis_jobs.testing import Clock, drain, enqueued, inline

NOON: Final = datetime(2027, 3, 12, 12, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
# Clocks in New York go forward on 14 March 2027.
DAILY: Final = Cron("0 9 * * *", tz="America/New_York", payload="daily")
REPORTS: Final = example_jobs(
    "reports", str, str, report={"schedules": {"daily": DAILY}}, archive={}
)


class Reports:
    """Its handler writes down the time and the tick, and takes as long as `takes`."""

    def __init__(self, clock: Clock) -> None:
        self.service = Service(REPORTS)
        self.clock = clock
        self.takes = timedelta()
        self.runs: list[tuple[str, datetime, datetime | None]] = []
        self.jobs.report.handle(self.handle)

    @property
    def jobs(self) -> ExampleJobs[str, str]:
        return self.service.jobs

    async def handle(self, active: ActiveJob[str]) -> str:
        self.runs.append((active.payload, self.clock.now(), active.scheduled_for))
        if self.takes:
            await self.clock.advance(self.takes)
        return active.payload

    def times(self, payload: str) -> list[timedelta]:
        return [at - NOON for name, at, _ in self.runs if name == payload]


@pytest.fixture
def clock() -> Clock:
    return Clock(NOON)


@pytest.fixture
def reports(clock: Clock) -> Reports:
    return Reports(clock)


async def test_a_declared_schedule_fires_at_nine_in_new_york(
    reports: Reports, clock: Clock
) -> None:
    async with inline(reports.service, clock=clock):
        await clock.advance(days=3)
        jobs = await enqueued(reports.jobs.report)
    assert reports.times("daily") == [2 * HOUR, 26 * HOUR, 49 * HOUR]
    assert [each.job.state for each in jobs] == ["completed"] * 3
    assert all(tick == at for _, at, tick in reports.runs)


async def test_a_schedule_that_is_made_at_run_time_fires_until_it_is_deleted(
    reports: Reports, clock: Clock
) -> None:
    schedules = reports.jobs.report.schedules
    async with inline(reports.service, clock=clock):
        await schedules.put("pulse", Every(600, payload="pulse"))
        assert [each.name for each in await schedules.list()] == ["daily", "pulse"]
        await clock.advance(minutes=30)
        assert reports.times("pulse") == [HOUR / 6, HOUR / 3, HOUR / 2]
        await schedules.delete("pulse")
        await clock.advance(minutes=30)
        assert len(reports.times("pulse")) == 3
        with pytest.raises(ScheduleDeclared):
            await schedules.delete("daily")


async def test_a_paused_schedule_catches_up_once(reports: Reports, clock: Clock) -> None:
    schedules = reports.jobs.report.schedules
    async with inline(reports.service, clock=clock):
        await schedules.put("pulse", Every(600, payload="pulse"))
        await schedules.pause("pulse")
        await clock.advance(minutes=35)
        assert reports.times("pulse") == []
        await schedules.resume("pulse")
        await clock.advance(minutes=1)
        assert [tick for *_, tick in reports.runs] == [NOON + HOUR / 2]


async def test_a_tick_is_skipped_while_the_previous_job_runs(
    reports: Reports, clock: Clock
) -> None:
    reports.takes = timedelta(minutes=15)
    schedules = reports.jobs.report.schedules
    async with inline(reports.service, clock=clock):
        await schedules.put("pulse", Every(600, payload="pulse", overlap="skip"))
        await clock.advance(minutes=39)
    assert reports.times("pulse") == [HOUR / 6, HOUR / 2]


async def test_a_triggered_job_is_over_when_trigger_returns(reports: Reports, clock: Clock) -> None:
    async with inline(reports.service, clock=clock):
        ref = await reports.jobs.report.schedules.trigger("daily")
        assert (await ref.get()).state == "completed"
    assert reports.times("daily") == [timedelta()]


async def test_without_a_clock_no_schedule_fires(reports: Reports) -> None:
    async with inline(reports.service):
        await reports.jobs.archive.schedules.put("second", Every(1, payload="second"))
        snapshot = await reports.jobs.archive.schedules.get("second")
        assert snapshot.next_at is not None
        assert (await drain(reports.service)).left == ()
        await reports.jobs.archive.schedules.trigger("second")
        assert [job.state for job in (await drain(reports.service)).left] == ["pending"]


async def test_a_schedule_of_a_queue_without_a_handler_creates_jobs(
    reports: Reports, clock: Clock
) -> None:
    async with inline(reports.service, clock=clock):
        await reports.jobs.archive.schedules.put("hourly", Cron("0 * * * *", payload="hourly"))
        await clock.advance(hours=5)
        jobs = await enqueued(reports.jobs.archive)
    assert [each.job.run.run_at for each in jobs] == [NOON + n * HOUR for n in range(1, 6)]
    assert {each.job.state for each in jobs} == {"pending"}
