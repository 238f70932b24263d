"""The moments at which a cron expression matches in a time zone, also on days with clock changes.

- An expression that names its hours and minutes (`30 2 * * *`) has one tick for each wall time.
  If clocks skip the wall time, the tick is at the moment of the change: when clocks go from 2:00
  to 3:00, the tick of 2:30 is at 3:00. Several skipped wall times have that one tick. If clocks
  repeat the wall time, the tick is at the first of the two moments.
- An expression that begins its minute or hour field with `*` (`*/15 * * * *`, `0 * * * *`) has a
  tick at every moment at which clocks show a matching time. A skipped time has no tick, and a
  repeated time has two.

Debian's cron does the same. cronsim does it too, except that it applies the second rule to every
expression with seconds, and loses ticks where clocks change by half an hour (Australia/Lord_Howe).
So we use cronsim for wall times only.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from trellis_jobs.model.schedules.cron import is_fixed, walls
from trellis_jobs.model.schedules.time_zone import (
    end_of_repetition,
    first_change,
    last_change,
    load_zone,
    moment_of,
    offset_at,
    wall_at,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from zoneinfo import ZoneInfo

    from trellis_jobs.model.schedules.definition import CronTiming

_SECOND: Final = timedelta(seconds=1)


def ticks_after(timing: CronTiming, after: datetime) -> Iterator[datetime]:
    """The ticks later than `after`, in order."""
    zone, begin = load_zone(timing.zone), after.replace(microsecond=0)
    if is_fixed(timing.expression):
        return _fixed_after(timing.expression, zone, begin)
    return _every_after(timing.expression, zone, begin)


def ticks_until(timing: CronTiming, until: datetime) -> Iterator[datetime]:
    """The ticks not later than `until`, the newest first."""
    zone, end = load_zone(timing.zone), until.replace(microsecond=0)
    if is_fixed(timing.expression):
        return _fixed_until(timing.expression, zone, end)
    return _every_until(timing.expression, zone, end)


def _fixed_after(expression: str, zone: ZoneInfo, last: datetime) -> Iterator[datetime]:
    for wall in walls(expression, wall_at(zone, last)):
        tick = moment_of(zone, wall)
        # Not later: the second time that clocks show it, or the second wall time in one gap.
        if tick > last:
            yield tick
            last = tick


def _fixed_until(expression: str, zone: ZoneInfo, until: datetime) -> Iterator[datetime]:
    begin, last = end_of_repetition(zone, until) + _SECOND, until + _SECOND
    for wall in walls(expression, begin, backwards=True):
        tick = moment_of(zone, wall)
        if tick < last:
            yield tick
            last = tick


def _every_after(expression: str, zone: ZoneInfo, last: datetime) -> Iterator[datetime]:
    """Matches wall times as long as the offset stays the same, then again from its change on."""
    change: datetime | None = last + _SECOND
    while change is not None:
        offset, last, change = offset_at(zone, change), change - _SECOND, None
        for wall in walls(expression, (last + offset).replace(tzinfo=None)):
            tick = wall.replace(tzinfo=UTC) - offset
            change = first_change(zone, offset, last, tick)
            if change is not None:
                break
            yield tick
            last = tick


def _every_until(expression: str, zone: ZoneInfo, until: datetime) -> Iterator[datetime]:
    change: datetime | None = until
    while change is not None:
        offset, last, change = offset_at(zone, change), change, None
        begin = (last + offset + _SECOND).replace(tzinfo=None)
        for wall in walls(expression, begin, backwards=True):
            tick = wall.replace(tzinfo=UTC) - offset
            change = last_change(zone, offset, tick, last)
            if change is not None:
                break
            yield tick
            last = tick
