"""Time zones: the wall-clock time of a moment, and the moment of a wall-clock time.

A *wall* is a datetime without a time zone, as a clock on the wall shows it. A *moment* is an aware
datetime in UTC. The rules of a time zone are read from a file when a process first uses it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from trellis_jobs.errors import DeclarationError

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

_SECOND: Final = timedelta(seconds=1)
# No time zone changes its offset and changes it back within this time.
_SHORTEST_SEASON: Final = timedelta(days=7)
_MAX_NAME_LENGTH: Final = 100
# A file that some systems have beside the zones. Its rules differ from machine to machine.
_NOT_A_ZONE: Final = "localtime"


@lru_cache(maxsize=1024)
def load_zone(name: str) -> ZoneInfo:
    """Raises DeclarationError if this machine does not know the time zone."""
    # Imported here, because processes without schedules do not need it.
    from zoneinfo import ZoneInfo  # noqa: PLC0415

    try:
        if name == _NOT_A_ZONE or not 0 < len(name) <= _MAX_NAME_LENGTH:
            raise ValueError(name)
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise DeclarationError(
            f"time zone {name!r:.120} is not known: use a name such as Europe/Berlin or UTC"
        ) from None


def offset_at(zone: ZoneInfo, moment: datetime) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


def first_change(
    zone: ZoneInfo, offset: timedelta, after: datetime, until: datetime
) -> datetime | None:
    """The first moment in (after, until] with another offset; None if there is none."""
    while after < until:
        probe = min(after + _SHORTEST_SEASON, until)
        if offset_at(zone, probe) != offset:
            return _bisect(zone, offset, after, probe)[1]
        after = probe
    return None


def last_change(
    zone: ZoneInfo, offset: timedelta, since: datetime, before: datetime
) -> datetime | None:
    """The last moment in [since, before) with another offset; None if there is none."""
    while since < before:
        probe = max(before - _SHORTEST_SEASON, since)
        if offset_at(zone, probe) != offset:
            return _bisect(zone, offset, before, probe)[1]
        before = probe
    return None


def _bisect(
    zone: ZoneInfo, offset: timedelta, same: datetime, other: datetime
) -> tuple[datetime, datetime]:
    """Bring a moment with this offset and one with another offset within a second."""
    while abs(other - same) > _SECOND:
        middle = same + (other - same) // _SECOND // 2 * _SECOND
        if offset_at(zone, middle) == offset:
            same = middle
        else:
            other = middle
    return same, other


def wall_at(zone: ZoneInfo, moment: datetime) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)


def moment_of(zone: ZoneInfo, wall: datetime) -> datetime:
    """The first moment at which clocks show this wall time.

    If clocks skip it, the moment of the change, at which they show the first time after the gap.
    """
    local = wall.replace(tzinfo=zone, fold=0)
    moment = local.astimezone(UTC)
    if wall_at(zone, moment) == wall:
        return moment
    before, after = local.utcoffset(), local.replace(fold=1).utcoffset()
    if before is None or after is None or after <= before:
        return moment
    return first_change(zone, before, moment - (after - before), moment) or moment


def end_of_repetition(zone: ZoneInfo, moment: datetime) -> datetime:
    """The wall time of a moment; during a repeated hour, the last one that clocks showed before."""
    local = moment.astimezone(zone)
    wall = local.replace(tzinfo=None, fold=0)
    if not local.fold:
        return wall
    first, second = local.replace(fold=0).utcoffset(), local.utcoffset()
    return wall if first is None or second is None else wall + (first - second)
