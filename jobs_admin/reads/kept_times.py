"""How far back the projection counts what happened, by the newest event that it has counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jobs_admin.projection.rows import MINUTES_AN_HOUR
from jobs_admin.projection.writer import ACTIVITY_MINUTES, HOURS_KEPT_MINUTES

if TYPE_CHECKING:
    import aiosqlite

_NEWEST: Final = "SELECT max(minute) FROM job_activity"


async def first_minute_kept(database: aiosqlite.Connection, *, in_hours: bool) -> int | None:
    """From this minute on, every minute or hour is counted in full. None: nothing is too old."""
    [(newest,)] = await database.execute_fetchall(_NEWEST)
    if newest is None:
        return None
    if not in_hours:
        return int(newest) - ACTIVITY_MINUTES
    return (int(newest) - HOURS_KEPT_MINUTES) // MINUTES_AN_HOUR * MINUTES_AN_HOUR
