"""Moments as people say them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from trellis_jobs.model.durations import format_duration

NOW: Final = "now"
_SECOND: Final = timedelta(seconds=1)


def ago(at: datetime, now: datetime) -> str:
    """`3 min ago`, or `in 3 min`; clocks of machines differ, so what is just to come is now."""
    distance = now - at
    if abs(distance) < _SECOND:
        return NOW
    return (
        f"{format_duration(distance)} ago"
        if distance > timedelta()
        else f"in {format_duration(-distance)}"
    )


def clock(at: datetime) -> str:
    """To the millisecond, where we are, and without the day."""
    return f"{at.astimezone():%H:%M:%S.%f}"[:-3]


def stamp(at: datetime) -> str:
    """To the millisecond, UTC, as RFC 3339 has it."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
