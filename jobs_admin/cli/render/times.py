"""Format points in time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from trellis_jobs.model.durations import format_duration

NOW: Final = "now"
_SECOND: Final = timedelta(seconds=1)


def ago(at: datetime, now: datetime) -> str:
    """`3 min ago`, `in 3 min`, or `now` within a second, because the machines' clocks differ."""
    distance = now - at
    if abs(distance) < _SECOND:
        return NOW
    return (
        f"{format_duration(distance)} ago"
        if distance > timedelta()
        else f"in {format_duration(-distance)}"
    )


def clock(at: datetime) -> str:
    """The local time of day, with milliseconds."""
    return f"{at.astimezone():%H:%M:%S.%f}"[:-3]


def stamp(at: datetime) -> str:
    """RFC 3339 in UTC, with milliseconds."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
