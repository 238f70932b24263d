"""Moments as people write them: an age (10m, 2h, 3d), a time of day (14:03:07), or RFC 3339."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Final

from trellis_jobs.model.durations import parse_duration

if TYPE_CHECKING:
    from datetime import tzinfo

_CLOCK: Final = re.compile(r"\d\d:\d\d(:\d\d(\.\d+)?)?")


def moment_before(text: str, now: datetime, zone: tzinfo | None = None) -> datetime:
    """Read `10m` as ten minutes before now. Raises ValueError if the text is not a moment.

    Times without an offset are in `zone`; None is the time zone of this process.
    """
    return _moment(text, now, -1, zone)


def moment_after(text: str, now: datetime, zone: tzinfo | None = None) -> datetime:
    """Read `10m` as ten minutes after now. Raises ValueError if the text is not a moment."""
    return _moment(text, now, 1, zone)


def format_moment(moment: datetime) -> str:
    """Write a moment in UTC, so that it is read again as the same moment in every zone."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _moment(text: str, now: datetime, direction: int, zone: tzinfo | None) -> datetime:
    try:
        read = parse_duration(text)
        if read is not None:
            return now + direction * read
        if _CLOCK.fullmatch(text):
            return _clock_time(text, now, direction, zone)
        parsed = datetime.fromisoformat(text)
        return parsed if parsed.tzinfo else _in_zone(parsed, zone)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is neither a duration (10m, 2h, 3d) nor a time"
            " (14:03:07, 2026-05-01T12:00:00Z)"
        ) from None


def _clock_time(text: str, now: datetime, direction: int, zone: tzinfo | None) -> datetime:
    """Return the previous or the next such time in the zone, as event lists show it."""
    # No zone until the day is known: another day can have another UTC offset.
    today = datetime.combine(now.astimezone(zone), time.fromisoformat(text))
    is_in_direction = direction * (_in_zone(today, zone) - now) >= timedelta()
    day = timedelta() if is_in_direction else direction * timedelta(days=1)
    return _in_zone(today + day, zone)


def _in_zone(moment: datetime, zone: tzinfo | None) -> datetime:
    return moment.astimezone() if zone is None else moment.replace(tzinfo=zone)
