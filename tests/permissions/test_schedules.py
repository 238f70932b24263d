"""The life of a schedule with exactly the rights that are printed: declared, listed, triggered."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from jobs_admin.api.client import AdminClient
from tests.permissions.installation import ROOT_USER, Installation
from tests.permissions.services import Chore, household, staff
from tests.permissions.test_operators_and_the_admin_runtime import OFTEN, admin, operator
from tests.support.facts import until
from trellis_jobs import Every
from trellis_jobs.errors import NotPermitted
from trellis_jobs.jetstream.client import api
from trellis_jobs.model.schedules.address import ScheduleAddress
from trellis_jobs.model.schedules.record import Origin
from trellis_jobs.model.states import JobState

LEAP_DAY = ScheduleAddress("house", "work", "leap-day")
OFTEN_ENOUGH = ScheduleAddress("house", "work", "often")
BY_CODE = ScheduleAddress("house", "work", "by-code")
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


async def until_listed(reader: AdminClient, address: ScheduleAddress) -> None:
    async def there() -> bool:
        listed = [each.address async for each in reader.schedules.all(type="work")]
        return str(address) in listed

    await until(there, f"{address} is listed")


async def until_run(reader: AdminClient, address: ScheduleAddress, job_id: str | None) -> None:
    """Waits for this job of the schedule, or for any."""

    async def has_run() -> bool:
        return any(
            run.state is JobState.COMPLETED and job_id in (None, run.job_id)
            for run in (await reader.schedules.get(address)).runs
        )

    await until(has_run, f"a job of {address} completed")


async def test_a_declared_schedule_is_listed_paused_triggered_and_resumed(
    installation: Installation, tmp_path: Path
) -> None:
    before = installation.violations("house")
    async with (
        staff(installation.access("house"), "work"),
        admin(installation, tmp_path),
        operator(installation, "both") as both,
    ):
        await until_listed(both, LEAP_DAY)
        assert (await both.schedules.get(LEAP_DAY)).origin is Origin.CONTRACT
        paused = await both.schedules.pause(LEAP_DAY, reason="no leap year", duration=HOUR)
        assert paused.schedule.paused is not None
        assert paused.schedule.paused.by == "both"
        triggered = await both.schedules.trigger(LEAP_DAY)
        await until_run(both, LEAP_DAY, triggered.job_id)
        assert (await both.schedules.resume(LEAP_DAY)).schedule.paused is None
    assert installation.violations("house") == before


async def test_an_operator_makes_moves_and_deletes_a_schedule(
    installation: Installation, tmp_path: Path
) -> None:
    """It is moved to an earlier time, for which the admin runtime reads and replaces its alarm."""
    before = installation.violations("house")
    async with (
        staff(installation.access("house"), "work"),
        admin(installation, tmp_path),
        operator(installation, "both") as both,
    ):
        for interval in (DAY, HOUR, SECOND):
            await both.schedules.put(OFTEN_ENOUGH, {}, every=interval)
        await until_run(both, OFTEN_ENOUGH, None)
        await both.schedules.delete(OFTEN_ENOUGH)
    assert installation.violations("house") == before


async def test_a_service_makes_and_lists_its_own_schedules(
    installation: Installation, tmp_path: Path
) -> None:
    mine = installation.access("house")
    before = installation.violations("house")
    async with (
        staff(mine, "work"),
        household(mine) as jobs,
        admin(installation, tmp_path),
        operator(installation, "reader") as reader,
    ):
        await jobs.work.schedules.put("by-code", Every(HOUR, payload=Chore()))
        await jobs.work.schedules.put("by-code", Every(SECOND, payload=Chore()))
        assert "by-code" in {each.name for each in await jobs.work.schedules.list()}
        await until_run(reader, BY_CODE, None)
        await jobs.work.schedules.delete("by-code")
    assert installation.violations("house") == before


async def test_the_admin_runtime_repairs_lost_alarms(
    installation: Installation, tmp_path: Path
) -> None:
    quick = {"janitor_interval": OFTEN, "overdue_grace": OFTEN}
    async with (
        staff(installation.access("house"), "work"),
        admin(installation, tmp_path, **quick),
        operator(installation, "both") as both,
        installation.connection(ROOT_USER) as root,
    ):
        await both.schedules.put(BY_CODE, {}, every=2 * SECOND)
        prefix = "trellis.alarm.house.schedule.work.by-code"
        await api.request(root, "STREAM.PURGE.JOBS_ALARMS_house", {"filter": prefix})
        await until_run(both, BY_CODE, None)
        await both.schedules.delete(BY_CODE)


async def test_operators_without_the_capability_change_no_schedule(
    installation: Installation, tmp_path: Path
) -> None:
    async with (
        staff(installation.access("house"), "work"),
        admin(installation, tmp_path),
        operator(installation, "reader") as reader,
        operator(installation, "changer") as changer,
    ):
        await until_listed(reader, LEAP_DAY)
        for change in (
            reader.schedules.pause(LEAP_DAY, reason="x"),
            reader.schedules.resume(LEAP_DAY),
            reader.schedules.trigger(LEAP_DAY),
            reader.schedules.put(LEAP_DAY, {}, every=HOUR),
            reader.schedules.delete(LEAP_DAY),
            changer.schedules.list(),
        ):
            with pytest.raises(NotPermitted):
                await change
        assert (await reader.schedules.get(LEAP_DAY)).paused is None
