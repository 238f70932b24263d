"""Changes schedules while the campaign runs, as code and an operator do."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Final

from jobs_admin.api.client import AdminClient
from tests.chaos.notebook import Notebook
from tests.chaos.workload import CHAOS, PAUSED, TICKING, Change, ScheduleWish, schedule_wish
from tests.support.example_service import ExampleJobs, Report, Task
from trellis_jobs.environment import utc_now
from trellis_jobs.errors import JobsError
from trellis_jobs.model.schedules.address import ScheduleAddress
from trellis_jobs.service.schedules import QueueSchedules

log = logging.getLogger(__name__)

_PAUSE: Final = 0.6
_BRIEFLY: Final = timedelta(seconds=1)
_DECLARED: Final = ScheduleAddress(CHAOS.contract.service, TICKING, PAUSED)


@dataclass(frozen=True)
class ScheduleChanger:
    """Producers change the same few schedules, so they meet each other and the workers."""

    jobs: ExampleJobs[Task, Report]
    notebook: Notebook
    chance: Random

    async def change_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            wanted = schedule_wish(self.chance)
            try:
                await self._change(wanted)
            except JobsError as error:
                log.info("unknown whether schedule %s was changed: %s", wanted.name, error)
            await asyncio.sleep(self.chance.uniform(0, 2 * _PAUSE))

    async def _change(self, wanted: ScheduleWish) -> None:
        schedules: QueueSchedules[Task, Report] = getattr(self.jobs, TICKING).schedules
        match wanted.change:
            case Change.PUT:
                await schedules.put(wanted.name, wanted.schedule)
            case Change.PAUSE:
                await schedules.pause(wanted.name, reason="chaos")
            case Change.PAUSE_BRIEFLY:
                await schedules.pause(wanted.name, until=utc_now() + _BRIEFLY)
            case Change.RESUME:
                await schedules.resume(wanted.name)
            case Change.TRIGGER:
                self.notebook.note("created", (await schedules.trigger(wanted.name)).id)
            case Change.DELETE:
                await schedules.delete(wanted.name)


async def pause_as_operator_until(stop: asyncio.Event, client: AdminClient, chance: Random) -> None:
    """Pauses and resumes a schedule that the contract declares, over an admin runtime."""
    while not stop.is_set():
        try:
            await client.schedules.pause(_DECLARED, reason="chaos")
            await asyncio.sleep(chance.uniform(0, 4))
            await client.schedules.resume(_DECLARED)
        except JobsError as error:
            log.info("not paused or resumed: %s", error)
        await asyncio.sleep(chance.uniform(0, 4))
