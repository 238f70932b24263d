"""Whether a projection's file can be gone on with, or has to be made anew, and why."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import aiosqlite

from jobs_admin.errors import ProjectionOutdated, ProjectionUnusable
from jobs_admin.projection.files import FileDamaged, file_id, read_only
from jobs_admin.projection.store import SCHEMA_VERSION, metadata, place_of
from trellis_jobs.jetstream.log_feed import LogReplaced, check_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trellis_jobs.jetstream.log_feed import LogFeed, Place

_BEYOND_REPAIR: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_PRIMARY: Final = 0xFF


async def why_unfit(path: Path, feed: LogFeed) -> str | None:
    """None when the file goes on with the log as it is.

    Raises FileDamaged, and ProjectionUnusable for a database that is somebody else's.
    """
    if file_id(path) is None:
        return "there is no file yet"
    with noticing_damage():
        try:
            place = await fit_place(path)
        except ProjectionOutdated as outdated:
            return str(outdated)
    if place is None:
        return "it belongs to no log yet"
    try:
        check_log(place, await feed.extent())
    except LogReplaced as replaced:
        return str(replaced)
    return None


async def fit_place(path: Path) -> Place | None:
    """How far a projection is, and in which log; None when it is not even begun.

    Raises ProjectionOutdated, and ProjectionUnusable for a database that is somebody else's.
    """
    async with aiosqlite.connect(read_only(path), uri=True) as database:
        tables = list(await database.execute_fetchall("SELECT name FROM sqlite_master LIMIT 1"))
        version = await metadata(database, "schema_version")
        place = await place_of(database)
    if not tables:
        return None
    if version is None:
        raise ProjectionUnusable(path, "it is a database, and no projection")
    if version != str(SCHEMA_VERSION):
        raise ProjectionOutdated(path, version, SCHEMA_VERSION)
    return place if place.created is not None else None


@contextmanager
def noticing_damage() -> Iterator[None]:
    """Raises FileDamaged; other troubles of a database, such as a full disk, pass."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        # Python's own complaints about a connection have no code.
        code = getattr(error, "sqlite_errorcode", 0)
        if code & _PRIMARY in _BEYOND_REPAIR:
            raise FileDamaged(f"the file is no database, or is damaged: {error}") from error
        raise
