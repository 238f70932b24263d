"""Schedules in words, for operators: `At 09:00 every day (Europe/Berlin)`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from trellis_jobs.model.schedules.cron import explain
from trellis_jobs.model.schedules.definition import CatchUp, CronTiming, Overlap

if TYPE_CHECKING:
    from datetime import datetime

    from trellis_jobs.model.schedules.definition import ScheduleDefinition, Timing

_UNITS: Final = (
    (timedelta(days=1), "d"),
    (timedelta(hours=1), "h"),
    (timedelta(minutes=1), "min"),
    (timedelta(seconds=1), "s"),
    (timedelta(milliseconds=1), "ms"),
)
_OVERLAPS: Final = {
    Overlap.ALLOW: "the new job is created beside it",
    Overlap.SKIP: "the tick is skipped",
    Overlap.REPLACE: "it is cancelled unless it runs, and the new job is created",
    Overlap.CANCEL_RUNNING: "it is cancelled, and the new job is created",
}


def describe(definition: ScheduleDefinition) -> str:
    """When the schedule creates jobs, as one line."""
    parts = [_timing(definition.timing)]
    if definition.jitter:
        parts.append(f"up to {_exactly(definition.jitter)} later")
    if definition.start is not None:
        parts.append(f"from {_text(definition.start)}")
    if definition.end is not None:
        parts.append(f"until {_text(definition.end)}")
    return ", ".join(parts)


def describe_catch_up(definition: ScheduleDefinition) -> str:
    """What happens to ticks that were missed."""
    match definition.catch_up:
        case CatchUp.SKIP:
            return "no jobs"
        case CatchUp.ONCE:
            return "one job, for the newest"
        case CatchUp.ALL:
            return f"a job for each, at most {definition.max_catch_up:,}"


def describe_overlap(definition: ScheduleDefinition) -> str:
    """What a tick does if the previous job has not ended."""
    return _OVERLAPS[definition.overlap]


def _timing(timing: Timing) -> str:
    if isinstance(timing, CronTiming):
        return f"{explain(timing.expression)} ({timing.zone})"
    return f"Every {_exactly(timing.every)}"


def _exactly(duration: timedelta) -> str:
    """With all units, unlike `format_duration`: `1 d 2 h 30 min`."""
    parts = []
    for unit, name in _UNITS:
        number, duration = divmod(duration, unit)
        if number:
            parts.append(f"{number} {name}")
    return " ".join(parts)


def _text(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
