"""Format points in time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
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


def moment(at: datetime, now: datetime) -> str:
    """The local time today, otherwise the local date and time."""
    local = at.astimezone()
    is_today = local.date() == now.astimezone().date()
    return f"{local:%H:%M:%S}" if is_today else f"{local:%Y-%m-%d %H:%M}"


def stamp(at: datetime) -> str:
    """RFC 3339 in UTC, with milliseconds."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def local_stamp(at: datetime) -> str:
    """The local date and time: `2026-05-01 09:00:00`."""
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}"


def short_stamp(at: datetime) -> str:
    """Like `stamp`, without the fraction of a second."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def stamp_in(zone: tzinfo, at: datetime) -> str:
    """The date and time in a time zone: `Fri 2026-05-01 09:00:00 CEST`."""
    return f"{at.astimezone(zone):%a %Y-%m-%d %H:%M:%S %Z}"
