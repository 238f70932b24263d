"""The ticks of a schedule: the moments for which it creates jobs, as aware datetimes in UTC.

Every process computes the same ticks. No function here takes longer for a longer outage: intervals
are arithmetic, and cron expressions are searched from the end that is needed.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import count, islice, takewhile
from typing import TYPE_CHECKING, Final

from trellis_jobs.model.schedules import cron_ticks
from trellis_jobs.model.schedules.definition import (
    EARLIEST,
    LATEST,
    CronTiming,
    ScheduleDefinition,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_MICROSECOND: Final = timedelta(microseconds=1)


def next_tick(definition: ScheduleDefinition, after: datetime) -> datetime | None:
    """The first tick later than `after`, or None if there is none any more."""
    return next(_forwards(definition, after, LATEST), None)


def ticks_between(
    definition: ScheduleDefinition, after: datetime, until: datetime, limit: int
) -> list[datetime]:
    """The ticks in (after, until] in order, the oldest `limit` of them."""
    return list(islice(_forwards(definition, after, until), limit))


def newest_ticks(
    definition: ScheduleDefinition, after: datetime, until: datetime, limit: int
) -> list[datetime]:
    """The ticks in (after, until] in order, the newest `limit` of them."""
    return list(islice(_backwards(definition, after, until), limit))[::-1]


def latest_tick(
    definition: ScheduleDefinition, after: datetime, until: datetime
) -> datetime | None:
    """The newest tick in (after, until], or None if there is none."""
    return next(_backwards(definition, after, until), None)


def count_ticks(
    definition: ScheduleDefinition, after: datetime, until: datetime, limit: int
) -> int:
    """The number of ticks in (after, until]; `limit` if there are more."""
    if isinstance(definition.timing, CronTiming):
        return len(ticks_between(definition, after, until, limit))
    begin, end = _window(definition, after, until)
    every, anchor = definition.timing.every, definition.anchor
    return min(limit, max(0, (end - anchor) // every - (begin - anchor) // every))


def _forwards(
    definition: ScheduleDefinition, after: datetime, until: datetime
) -> Iterator[datetime]:
    begin, end = _window(definition, after, until)
    timing = definition.timing
    if begin >= end:
        return iter(())
    if isinstance(timing, CronTiming):
        ticks = cron_ticks.ticks_after(timing, begin)
    else:
        past = (begin - definition.anchor) // timing.every
        ticks = (definition.anchor + n * timing.every for n in count(past + 1))
    return takewhile(lambda tick: tick <= end, ticks)


def _backwards(
    definition: ScheduleDefinition, after: datetime, until: datetime
) -> Iterator[datetime]:
    begin, end = _window(definition, after, until)
    timing = definition.timing
    if begin >= end:
        return iter(())
    if isinstance(timing, CronTiming):
        ticks = cron_ticks.ticks_until(timing, end)
    else:
        newest = (end - definition.anchor) // timing.every
        ticks = (definition.anchor + n * timing.every for n in count(newest, -1))
    return takewhile(lambda tick: tick > begin, ticks)


def _window(
    definition: ScheduleDefinition, after: datetime, until: datetime
) -> tuple[datetime, datetime]:
    """The part of (after, until] that is within the period of the schedule."""
    start = (definition.start or EARLIEST) - _MICROSECOND
    return max(after, start), min(until, definition.end or LATEST, LATEST)
