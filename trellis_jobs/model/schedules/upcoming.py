"""The next ticks of a schedule, and when their jobs are created."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trellis_jobs.model.schedules.definition import LATEST
from trellis_jobs.model.schedules.firing import fire_time
from trellis_jobs.model.schedules.ticks import ticks_between
from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from datetime import datetime

    from trellis_jobs.model.schedules.record import ScheduleRecord

# Of ticks that are past, and whose jobs are delayed by the jitter.
_MAX_DELAYED: Final = 1_000


class UpcomingTick(Value, frozen=True):
    """A tick, and when its job is created: at the tick, or later because of the jitter."""

    tick: datetime
    at: datetime


def upcoming(record: ScheduleRecord, now: datetime, count: int) -> list[UpcomingTick]:
    """The next ticks, and when their jobs are created.

    Those of a schedule that is paused until a time are the ones after that time. If it is paused
    until someone resumes it, they are the ones that it would have.
    """
    definition, begin = record.definition, max(record.decided_until, now)
    delayed: list[datetime] = []
    if record.paused is not None and record.paused.until is not None:
        begin = max(begin, record.paused.until)
    elif definition.jitter:
        since = max(record.decided_until, now - definition.jitter)
        delayed = ticks_between(definition, since, now, _MAX_DELAYED)
    ticks = [*delayed, *ticks_between(definition, begin, LATEST, count)]
    found = (UpcomingTick(tick, fire_time(definition, record.address, tick)) for tick in ticks)
    return [each for each in found if each.at > now][:count]


def next_upcoming(record: ScheduleRecord, now: datetime) -> UpcomingTick | None:
    """Returns None if there is no tick any more, or until someone resumes the schedule."""
    if record.paused is not None and record.paused.until is None:
        return None
    return next(iter(upcoming(record, now, 1)), None)
