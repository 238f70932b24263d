"""Format durations for people, the same way in every message, table and explanation."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

_MILLISECOND: Final = timedelta(milliseconds=1)
_SECOND: Final = timedelta(seconds=1)
_MINUTE: Final = timedelta(minutes=1)
_UNITS: Final = (
    (timedelta(days=1), "d"),
    (timedelta(hours=1), "h"),
    (_MINUTE, "min"),
    (_SECOND, "s"),
)
_ONE_DECIMAL_BELOW: Final = 10


def format_duration(duration: timedelta) -> str:
    """Format in the largest unit, and the next smaller one if not zero: `2 h 5 min`, `3.2 s`.

    Negative durations, which differing machine clocks can cause, count as zero.
    """
    if duration < _SECOND:
        return f"{_number(max(duration, timedelta()) / _MILLISECOND)} ms"
    if duration < _MINUTE:
        return f"{_number(duration / _SECOND)} s"
    at = next(index for index, (unit, _) in enumerate(_UNITS) if duration >= unit)
    (unit, name), (finer, finer_name) = _UNITS[at], _UNITS[at + 1]
    whole, rest = divmod(duration, unit)
    more = rest // finer
    return f"{whole} {name} {more} {finer_name}" if more else f"{whole} {name}"


def _number(value: float) -> str:
    """Small numbers get one decimal."""
    return f"{value:.{1 if value < _ONE_DECIMAL_BELOW else 0}f}".removesuffix(".0")
