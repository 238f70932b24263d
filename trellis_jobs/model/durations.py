"""Format durations for people, the same way in every message, table and explanation; parse them.

No library: humanize and humanfriendly write `2 hours and 5 minutes`, which is too wide for tables,
and pytimeparse reads a time such as 14:03:07 as a duration (ADR 11).
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

# A hundred years. Longer durations could not be added to a date.
LONGEST: Final = timedelta(days=36_525)
_MILLISECOND: Final = timedelta(milliseconds=1)
_SECOND: Final = timedelta(seconds=1)
_MINUTE: Final = timedelta(minutes=1)
_UNITS: Final = (
    (timedelta(days=1), "d"),
    (timedelta(hours=1), "h"),
    (_MINUTE, "min"),
    (_SECOND, "s"),
)
_WRITTEN: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhdw])")
_WRITTEN_UNITS: Final = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": _MINUTE,
    "s": _SECOND,
    "w": timedelta(weeks=1),
}
_COMPACT_UNITS: Final = "dhms"
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


def parse_duration(text: str) -> timedelta | None:
    """Parse `90s`, `10m`, `1.5h`, `3d` or `2w`. Returns None for anything else.

    Raises OverflowError if it is longer than a timedelta can be.
    """
    written = _WRITTEN.fullmatch(text)
    return float(written[1]) * _WRITTEN_UNITS[written[2]] if written else None


def compact_duration(duration: timedelta) -> str:
    """Format in one unit, as `parse_duration` reads it: `36h`."""
    for unit in _COMPACT_UNITS:
        whole, rest = divmod(duration, _WRITTEN_UNITS[unit])
        if not rest:
            return f"{whole}{unit}"
    return f"{duration.total_seconds()}s"
