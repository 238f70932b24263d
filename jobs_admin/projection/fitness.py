"""Whether a projection's file can be gone on with, or has to be made anew, and why."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from jobs_admin.errors import ProjectionOutdated, ProjectionUnusable
from jobs_admin.projection.files import FileDamaged, file_id
from jobs_admin.projection.store import Projection
from trellis_jobs.jetstream.log_feed import LogReplaced, check_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trellis_jobs.jetstream.log_feed import LogFeed

_BEYOND_REPAIR: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_PRIMARY: Final = 0xFF


async def why_unfit(path: Path, feed: LogFeed) -> str | None:
    """None when the file goes on with the log as it is.

    Raises FileDamaged, and ProjectionUnusable for a database that is somebody else's.
    """
    if file_id(path) is None:
        return "there is no file yet"
    try:
        with noticing_damage():
            async with Projection.open(path) as projection:
                place = await projection.place()
    except ProjectionOutdated as outdated:
        if outdated.found is None:
            raise ProjectionUnusable(path, "it is a database, and no projection") from None
        return str(outdated)
    if place.created is None:
        return "it belongs to no log"
    try:
        check_log(place, await feed.extent())
    except LogReplaced as replaced:
        return str(replaced)
    return None


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
