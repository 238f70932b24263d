"""Decides whether a projection's file can be continued or must be rebuilt, and why."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import aiosqlite

from jobs_admin.api.errors import ProjectionOutdated, ProjectionUnusable
from jobs_admin.projection.files import FileDamaged, FileLocked, file_id, read_only
from jobs_admin.projection.metadata import metadata, position_of
from jobs_admin.projection.schema import SCHEMA_VERSION, lacking
from trellis_jobs.jetstream.log.feed import LogReplaced, check_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trellis_jobs.jetstream.log.feed import LogFeed, LogPosition

_BEYOND_REPAIR: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_PRIMARY: Final = 0xFF
# Our queries name only what our scripts create, so another program removed it.
_GONE: Final = ("no such table", "no such column", "no such index")


async def why_incompatible(path: Path, feed: LogFeed) -> str | None:
    """Return None when the file can be continued with this log.

    Raises FileDamaged, and ProjectionUnusable for a database that is not a projection.
    """
    if file_id(path) is None:
        return "there is no file"
    with translate_sqlite_errors():
        try:
            position = await compatible_position(path)
        except ProjectionOutdated as outdated:
            return str(outdated)
    if position is None:
        return "it is empty"
    try:
        check_log(position, await feed.extent())
    except LogReplaced as replaced:
        return str(replaced)
    return None


async def compatible_position(path: Path) -> LogPosition | None:
    """Return the position of a projection and its log, or None when it is empty.

    Raises ProjectionOutdated, FileDamaged when tables or indexes are missing, and
    ProjectionUnusable for a database that is not a projection.
    """
    async with aiosqlite.connect(read_only(path), uri=True) as database:
        tables = list(await database.execute_fetchall("SELECT name FROM sqlite_master LIMIT 1"))
        version = await schema_version(database)
        position = await position_of(database)
        gone = await lacking(database)
    if not tables:
        return None
    if version is None:
        raise ProjectionUnusable(path, "it is a SQLite file, but not a trellis-jobs projection")
    if version != str(SCHEMA_VERSION):
        raise ProjectionOutdated(path, version, SCHEMA_VERSION)
    require_complete(gone)
    return position if position.created is not None else None


async def schema_version(database: aiosqlite.Connection) -> str | None:
    """Return None when this is not a projection."""
    return (await metadata(database)).get("schema_version")


async def check_integrity(path: Path) -> None:
    """Looks at every page. Raises FileDamaged, also when it is no projection any more."""
    with translate_sqlite_errors():
        async with aiosqlite.connect(read_only(path), uri=True) as database:
            rows = list(await database.execute_fetchall("PRAGMA quick_check(1)"))
            version = await schema_version(database)
            gone = await lacking(database)
    if rows != [("ok",)]:
        raise FileDamaged(f"the file is damaged: {rows[0][0]}")
    if version is None:
        raise FileDamaged("the file is no longer a projection")
    require_complete(gone)


def require_complete(gone: list[str]) -> None:
    if gone:
        raise FileDamaged(f"missing, or changed by another program: {', '.join(gone)}")


@contextmanager
def translate_sqlite_errors() -> Iterator[None]:
    """Raise FileDamaged or FileLocked for SQLite's errors; leave others, such as a full disk."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        # Errors of Python's sqlite3 module itself have no code, for example about invalid text.
        code = getattr(error, "sqlite_errorcode", None)
        if code is not None and code & _PRIMARY == sqlite3.SQLITE_BUSY:
            raise FileLocked(error) from error
        is_no_text = code is None and isinstance(error, sqlite3.OperationalError)
        is_gone = code == sqlite3.SQLITE_ERROR and str(error).startswith(_GONE)
        if is_no_text or is_gone or (code is not None and code & _PRIMARY in _BEYOND_REPAIR):
            raise FileDamaged(f"the file is damaged or not a database: {error}") from error
        raise
