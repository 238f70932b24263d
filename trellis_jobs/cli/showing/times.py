"""Moments and durations as people say them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

NOW: Final = "now"
_SECOND: Final = timedelta(seconds=1)
_UNITS: Final = (
    (timedelta(days=1), "d"),
    (timedelta(hours=1), "h"),
    (timedelta(minutes=1), "min"),
)
_FINE: Final = timedelta(seconds=10)


def ago(at: datetime, now: datetime) -> str:
    """`3 min ago`, or `in 3 min`; clocks of machines differ, so what is just to come is now."""
    distance = now - at
    if abs(distance) < _SECOND:
        return NOW
    return f"{spell(distance)} ago" if distance > timedelta() else f"in {spell(-distance)}"


def spell(duration: timedelta) -> str:
    """In its largest unit, with the next one where that says something: `2 h 5 min`."""
    if duration < _SECOND:
        return f"{duration / timedelta(milliseconds=1):.0f} ms"
    if duration < timedelta(minutes=1):
        return f"{duration / _SECOND:.{1 if duration < _FINE else 0}f} s"
    for index, (unit, name) in enumerate(_UNITS):
        if duration >= unit:
            whole, rest = divmod(duration, unit)
            finer, finer_name = _UNITS[index + 1] if index + 1 < len(_UNITS) else (_SECOND, "s")
            more = rest // finer
            return f"{whole} {name} {more} {finer_name}" if more else f"{whole} {name}"
    raise AssertionError(duration)


def clock(at: datetime) -> str:
    """To the millisecond, where we are, and without the day."""
    return f"{at.astimezone():%H:%M:%S.%f}"[:-3]


def stamp(at: datetime) -> str:
    """To the millisecond, UTC, as RFC 3339 has it."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
