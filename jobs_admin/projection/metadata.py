"""What a projection's file says of itself."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final

import aiosqlite

from trellis_jobs.jetstream.log.feed import LogPosition

if TYPE_CHECKING:
    from collections.abc import Mapping

ALL_METADATA: Final = "SELECT name, value FROM projection_metadata"


async def metadata(database: aiosqlite.Connection) -> dict[str, str]:
    """Nothing, where this is no projection."""
    try:
        rows = await database.execute_fetchall(ALL_METADATA)
    except aiosqlite.OperationalError as error:
        if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_ERROR:
            raise
        return {}  # there is no such table
    return {str(name): str(value) for name, value in rows}


async def position_of(database: aiosqlite.Connection) -> LogPosition:
    return position_in(await metadata(database))


def position_in(said: Mapping[str, str]) -> LogPosition:
    """How far a projection is, and in which log; None before it belongs to one."""
    return LogPosition(
        int(said.get("position", 0)),
        int(said.get("position_stored_ns", 0)),
        said.get("stream_created"),
    )


def position_rows(place: LogPosition) -> list[tuple[str, str]]:
    """Which log that is has been said before."""
    return [("position", str(place.sequence)), ("position_stored_ns", str(place.stored_ns))]
