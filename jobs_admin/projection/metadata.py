"""The metadata in a projection's file."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final

import aiosqlite

from trellis_jobs.jetstream.log.feed import LogPosition

if TYPE_CHECKING:
    from collections.abc import Mapping

FILLED_AT: Final = "filled_at"
ALL_METADATA: Final = "SELECT name, value FROM projection_metadata"


async def metadata(database: aiosqlite.Connection) -> dict[str, str]:
    """Return an empty dictionary when this is not a projection."""
    try:
        rows = await database.execute_fetchall(ALL_METADATA)
    except aiosqlite.OperationalError as error:
        if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_ERROR:
            raise
        return {}  # there is no such table
    return {str(name): str(value) for name, value in rows}


async def position_of(database: aiosqlite.Connection) -> LogPosition:
    return position_in(await metadata(database))


def position_in(values: Mapping[str, str]) -> LogPosition:
    """Return the position of the projection, and the log that it belongs to, if any."""
    return LogPosition(
        int(values.get("position", 0)),
        int(values.get("position_stored_ns", 0)),
        values.get("stream_created"),
    )


def position_rows(position: LogPosition) -> list[tuple[str, str]]:
    """The metadata rows of a position; the log's identity is written elsewhere."""
    return [("position", str(position.sequence)), ("position_stored_ns", str(position.stored_ns))]
