"""Stories of schedules: they are declared, made, changed and fired."""

from __future__ import annotations

from functools import partial

from tests.crash_points import parts, schedule_parts
from tests.crash_points.schedule_parts import SECOND, is_busy, next_ticks, records
from tests.crash_points.stage import People, Stage, people
from tests.support.example_service import Task
from trellis_jobs import Every
from trellis_jobs.contract.topology import alarms_stream
from trellis_jobs.environment import utc_now
from trellis_jobs.jetstream.client import api
from trellis_jobs.scheduler.declared_schedules import LATE


async def declaring_schedules(stage: Stage) -> None:
    async with people(stage):
        await stage.begin(schedule_parts.declare)


async def removing_schedules(stage: Stage) -> None:
    """The contract of the victim does not declare them any more."""
    async with people(stage) as p:
        with stage.another(schedule_parts.declare) as before:
            await stage.until(lambda: before.is_ready, "the schedules are declared")
        await stage.begin(parts.work)
        await stage.until(lambda: _is_empty(p), "they are removed")
        await stage.end()


async def making_schedules(stage: Stage) -> None:
    async with people(stage) as p:
        early = next_ticks("early", after=2)
        await p.jobs.plain.schedules.put(early.name, early.schedule)
        early.promise(stage.folder)
        with stage.another(parts.work):
            await stage.begin(schedule_parts.make_schedules)


async def firing_schedules(stage: Stage) -> None:
    """One of many ticks, one whose previous jobs live, and one whose key is full."""
    async with people(stage) as p:
        ticks = next_ticks("pulse", 4)
        every_second = partial(Every, 1, start=ticks.start, end=ticks.end)
        wait = Task(do="wait")
        await p.jobs.plain.schedules.put(ticks.name, ticks.schedule)
        ticks.promise(stage.folder)
        await p.jobs.keyed.schedules.put(
            "newest", every_second(payload=wait, overlap="cancel-running")
        )
        await p.jobs.plain.schedules.put("paused", every_second(payload=Task()))
        await p.jobs.plain.schedules.pause("paused", until=ticks.start)
        await p.jobs.strict.schedules.put("full", every_second(payload=wait))
        sparse = Every(2, payload=Task(), start=ticks.start, end=ticks.end)
        await p.jobs.plain.schedules.put("sparse", sparse)
        await stage.begin(parts.work)
        await stage.until(lambda: _is_quiet(p), "all ticks are decided, and have their jobs")
        await stage.end()


async def ringing_late_schedules(stage: Stage) -> None:
    """No worker was up when they were due, and their alarms are lost."""
    stage.repairs_alarms = False
    async with people(stage) as p:
        ticks = next_ticks("late", 2, after=1)
        await p.jobs.plain.schedules.put(ticks.name, ticks.schedule)
        ticks.promise(stage.folder)
        await api.request(p.raw.connection, f"STREAM.PURGE.{alarms_stream('mill')}")
        await stage.until(lambda: utc_now() > ticks.start + LATE + SECOND, "they are late")
        await stage.begin(parts.work)
        await stage.until(lambda: _is_quiet(p), "all ticks are decided, and have their jobs")
        await stage.end()


async def _is_quiet(p: People) -> bool:
    return not any(map(is_busy, await records(p.raw)))


async def _is_empty(p: People) -> bool:
    return not await records(p.raw)
