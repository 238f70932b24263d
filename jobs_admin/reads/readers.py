"""Read-only connections to the projection, one for each question that is asked at the time."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Final

import aiosqlite

from jobs_admin.api.errors import ProjectionOutdated, ProjectionUnavailable, QueryTimeout
from jobs_admin.projection.compatibility import (
    require_complete,
    schema_version,
    translate_sqlite_errors,
)
from jobs_admin.projection.files import FileDamaged, FileMissing, file_id, read_only
from jobs_admin.projection.schema import SCHEMA_VERSION, lacking

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from jobs_admin.projection.files import FileId
    from jobs_admin.projection.projector import Projector

READERS: Final = 4
# One question of an operator may take so long, in seconds.
QUERY_TIMEOUT: Final = 2.0
_STEPS_BETWEEN_LOOKS: Final = 20_000
# Rows of one that goes through many.
_AT_HAND: Final = 16
# While a rebuilt file is put in the old one's place, there is none for a moment.
_LOOKS: Final = 50
_LOOK: Final = 0.01


@dataclass(frozen=True, slots=True)
class _Reader:
    database: aiosqlite.Connection
    file: FileId


class Readers:
    """A file that was replaced is noticed with the next question, and opened.

    One that is gone or damaged is said to be so, to the projector too: it makes it again, and until
    then nothing is read. Without a projector that is for another process to do.
    """

    def __init__(self, path: Path, projector: Projector | None = None) -> None:
        self._path = path
        self._projector = projector
        self._idle: asyncio.LifoQueue[_Reader | None] = asyncio.LifoQueue()

    @classmethod
    @asynccontextmanager
    async def open(
        cls, path: Path, projector: Projector | None = None, *, count: int = READERS
    ) -> AsyncIterator[Readers]:
        """The file itself is opened when it is needed."""
        readers = cls(path, projector)
        for _ in range(count):
            readers._idle.put_nowait(None)
        try:
            yield readers
        finally:
            for _ in range(count):
                await _close(await readers._idle.get())

    async def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        async with self._one() as database:
            return [tuple(row) for row in await database.execute_fetchall(query, values)]

    async def each(self, query: str, values: Sequence[Any] = ()) -> AsyncIterator[tuple[Any, ...]]:
        """The same, with few rows at hand at a time: for those that may be large."""
        async with self._one() as database, database.execute(query, values) as cursor:
            async for row in cursor:
                yield tuple(row)

    async def row(self, query: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        found = await self.rows(query, values)
        return found[0] if found else None

    @asynccontextmanager
    async def snapshot(self, within: float = inf) -> AsyncIterator[aiosqlite.Connection]:
        """Several questions to the same moment of the projection.

        Raises QueryTimeout when they are not answered `within` so many seconds.
        """
        async with self._one() as database, _time_limit(database, within):
            await database.execute("BEGIN")
            try:
                yield database
            finally:
                if database.in_transaction:
                    await database.execute("ROLLBACK")

    @asynccontextmanager
    async def _one(self) -> AsyncIterator[aiosqlite.Connection]:
        """Raises ProjectionUnavailable when there is no file to be read."""
        self._refuse_while_rebuilding()
        reader = await self._idle.get()
        try:
            with translate_sqlite_errors():
                if reader is None or reader.file != file_id(self._path):
                    stale, reader = reader, None
                    await _close(stale)
                    reader = await self._open()
                yield reader.database
        except (FileDamaged, FileMissing) as trouble:
            stale, reader = reader, None
            self._tell_projector(trouble, stale)
            await _close(stale)
            raise self._unavailable(trouble) from None
        finally:
            self._idle.put_nowait(reader)

    def _refuse_while_rebuilding(self) -> None:
        if self._projector is not None:
            self._projector.raise_if_rebuilding()

    def _tell_projector(self, trouble: FileDamaged | FileMissing, reader: _Reader | None) -> None:
        """Damage is none of the projector's business when another file is there by now."""
        is_current = reader is None or reader.file == file_id(self._path)
        if self._projector is not None and is_current:
            damage = trouble if isinstance(trouble, FileDamaged) else None
            self._projector.check_file(damage)

    def _unavailable(self, trouble: FileDamaged | FileMissing) -> ProjectionUnavailable:
        return ProjectionUnavailable(
            f"the projection {self._path} cannot be read: {trouble}; whoever fills it makes it "
            "again from the log, so ask again in a moment"
        )

    async def _open(self) -> _Reader:
        """Raises FileMissing when there is no file, nor one to come."""
        for look in range(_LOOKS):
            reader = await self._open_now()
            if reader is not None:
                return reader
            if look == 0 and self._projector is not None:
                self._projector.check_file()
            await asyncio.sleep(_LOOK)
        self._refuse_while_rebuilding()
        raise FileMissing(self._path)

    async def _open_now(self) -> _Reader | None:
        """None when there is no file at this moment, or another than a moment ago."""
        file = file_id(self._path)
        if file is None:
            return None
        try:
            reader = _Reader(await _connect(self._path), file)
        except Exception:
            if file_id(self._path) != file:
                return None
            raise
        if file_id(self._path) == file:
            return reader
        await _close(reader)
        return None


@asynccontextmanager
async def _time_limit(database: aiosqlite.Connection, seconds: float) -> AsyncIterator[None]:
    """SQLite itself looks at the clock every few thousand steps, and gives up."""
    if seconds == inf:
        yield
        return
    end = time.monotonic() + seconds
    await database.set_progress_handler(lambda: time.monotonic() > end, _STEPS_BETWEEN_LOOKS)
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            raise QueryTimeout(seconds) from None
        raise
    finally:
        await database.set_progress_handler(None, 0)  # type: ignore[arg-type]


async def _connect(path: Path) -> aiosqlite.Connection:
    database = await aiosqlite.connect(read_only(path), uri=True, iter_chunk_size=_AT_HAND)
    try:
        await database.execute("PRAGMA query_only = ON")
        await database.execute("PRAGMA busy_timeout = 5000")
        # Opens the file: until something is read, only its name is known.
        found = await schema_version(database)
        if found is None:
            raise FileDamaged("the file is no projection")
        if found != str(SCHEMA_VERSION):
            raise ProjectionOutdated(path, found, SCHEMA_VERSION)
        require_complete(await lacking(database))
    except BaseException:
        await database.close()
        raise
    return database


async def _close(reader: _Reader | None) -> None:
    if reader is not None:
        await reader.database.close()
