"""Publishes the alarms of delayed jobs and of schedules again that are overdue: they were lost.

While no worker of a service is up, alarms that have come wait in its stream, and the server refuses
a second one for the same job or schedule. So nothing piles up, and any number of admin runtimes may
do this. The worker that receives an alarm reads the job from the log, or the schedule's record, so
one too many does no harm.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jobs_admin.gather_limited import gather_limited
from jobs_admin.reads.candidates import PageEnd, overdue_delays
from trellis_jobs.errors import InfrastructureError, NotConfirmed
from trellis_jobs.jetstream.schedules.schedules import alarm_of
from trellis_jobs.model import subjects
from trellis_jobs.model.subjects import AlarmFamily

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
    from datetime import datetime, timedelta

    from jobs_admin.reads.readers import Readers
    from jobs_admin.schedules.registry import ScheduleRegistry
    from trellis_jobs.jetstream.alarms.alarms import Alarms
    from trellis_jobs.jetstream.client.server_clock import ServerClock
    from trellis_jobs.model.schedules.address import ScheduleAddress
    from trellis_jobs.model.subjects import AlarmAddress

log = logging.getLogger(__name__)

PAGE_SIZE: Final = 500
_MAX_PAGES: Final = 10
_OVERDUE: Final = {AlarmFamily.JOB: "delayed jobs", AlarmFamily.SCHEDULE: "schedules"}


def plan_alarms(
    alarms: Iterable[AlarmAddress], unreachable: Collection[str]
) -> dict[str, list[AlarmAddress]]:
    """The alarms to publish by service, without services whose alarms cannot be published."""
    planned: dict[str, list[AlarmAddress]] = {}
    for alarm in alarms:
        if alarm.service not in unreachable:
            planned.setdefault(alarm.service, []).append(alarm)
    return planned


def page_after(
    overdue: Sequence[ScheduleAddress], last: ScheduleAddress | None, size: int
) -> list[ScheduleAddress]:
    """The page that follows `last` in the list, which is ordered. It begins again at the end."""
    following = [each for each in overdue if last is None or str(each) > str(last)]
    return following[:size] or list(overdue[:size])


@dataclass(slots=True, kw_only=True)
class OverdueAlarms:
    """`grace`: how long a job or a schedule is left to its alarm and the workers of its service.

    `is_caught_up`: whether the projection has every event that the log holds at the call.
    """

    readers: Readers
    schedules: ScheduleRegistry
    alarms: Alarms
    clock: ServerClock
    grace: timedelta
    is_caught_up: Callable[[], Awaitable[bool]]
    report_progress: Callable[[], None]
    _after: PageEnd = field(default_factory=PageEnd)
    _last_schedule: ScheduleAddress | None = None

    async def sweep(self) -> None:
        """Look at some overdue jobs and schedules, and continue with others in the next sweep."""
        due_before = await self.clock.now() - self.grace
        unreachable: set[str] = set()
        await self._sweep_jobs(due_before, unreachable)
        await self._sweep_schedules(due_before, unreachable)

    async def _sweep_jobs(self, due_before: datetime, unreachable: set[str]) -> None:
        """Ends early when no alarm was lost: then these jobs only wait for a worker."""
        for page in range(_MAX_PAGES):
            jobs, end = await overdue_delays(
                self.readers, due_before, after=self._after, limit=PAGE_SIZE
            )
            is_last = len(jobs) < PAGE_SIZE
            if not page and jobs and not await self.is_caught_up():
                return
            self._after = PageEnd() if is_last else end
            published = await self._publish_all(map(subjects.alarm_of_job, jobs), unreachable)
            self.report_progress()
            if is_last or not published:
                return

    async def _sweep_schedules(self, due_before: datetime, unreachable: set[str]) -> None:
        """Ends early when no alarm was lost, too."""
        overdue = await self.schedules.overdue(due_before) if self.schedules.is_complete else []
        for _ in range(_MAX_PAGES):
            page = page_after(overdue, self._last_schedule, PAGE_SIZE)
            self._last_schedule = page[-1] if page else None
            published = await self._publish_all(map(alarm_of, page), unreachable)
            self.report_progress()
            if len(page) < PAGE_SIZE or not published:
                return

    async def _publish_all(self, alarms: Iterable[AlarmAddress], unreachable: set[str]) -> int:
        """Returns how many alarms had been lost."""
        lost = 0
        for service, planned in plan_alarms(alarms, unreachable).items():
            what = _OVERDUE[planned[0].family]
            try:
                lost += await self._publish(service, what, planned)
            except (InfrastructureError, NotConfirmed) as error:
                unreachable.add(service)
                log.warning(
                    "%s of service %s are overdue, and their alarms cannot be published: %s",
                    what,
                    service,
                    error,
                    extra={"service": service, "error": str(error)},
                )
        return lost

    async def _publish(self, service: str, what: str, alarms: Sequence[AlarmAddress]) -> int:
        """The first one alone, so that a missing stream is noticed once."""
        outcomes = [await self.alarms.ring(alarms[0])]
        outcomes += await gather_limited(self.alarms.ring, alarms[1:])
        lost = sum(outcomes)
        if lost:
            log.warning(
                "%d %s of service %s were overdue without an alarm: published it again",
                lost,
                what,
                service,
                extra={"service": service, "alarms": lost},
            )
        return lost
