"""A pool of read-only connections to the projection."""

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
# The maximum duration of a query for an operator, in seconds.
QUERY_TIMEOUT: Final = 2.0
_STEPS_BETWEEN_CHECKS: Final = 20_000
# How many rows of a large result are in memory at a time.
_CHUNK_ROWS: Final = 16
# While a rebuilt file replaces the old one, there is no file for a moment.
_OPEN_ATTEMPTS: Final = 50
_OPEN_RETRY_DELAY: Final = 0.01


@dataclass(frozen=True, slots=True)
class _Reader:
    database: aiosqlite.Connection
    file: FileId


class Readers:
    """Opens a replaced file with the next query.

    A missing or damaged file is reported to the projector, which rebuilds it; until then nothing
    is read. Without a projector in this process, another process must do that.
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
        """The file is opened with the first query."""
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
        """Like rows(), with few rows in memory at a time, for rows that may be large."""
        async with self._one() as database, database.execute(query, values) as cursor:
            async for row in cursor:
                yield tuple(row)

    async def row(self, query: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        found = await self.rows(query, values)
        return found[0] if found else None

    @asynccontextmanager
    async def snapshot(self, within: float = inf) -> AsyncIterator[aiosqlite.Connection]:
        """Run several queries on one snapshot of the projection.

        Raises QueryTimeout when they take longer than `within` seconds.
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
        """Raises ProjectionUnavailable when there is no readable file."""
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
        """Report the problem, unless another file has replaced the damaged one."""
        is_current = reader is None or reader.file == file_id(self._path)
        if self._projector is not None and is_current:
            damage = trouble if isinstance(trouble, FileDamaged) else None
            self._projector.check_file(damage)

    def _unavailable(self, trouble: FileDamaged | FileMissing) -> ProjectionUnavailable:
        return ProjectionUnavailable(
            f"the projection {self._path} cannot be read: {trouble}; the process that writes it "
            "rebuilds it from the log: try again in a moment"
        )

    async def _open(self) -> _Reader:
        """Raises FileMissing when no file appears."""
        for attempt in range(_OPEN_ATTEMPTS):
            reader = await self._open_now()
            if reader is not None:
                return reader
            if attempt == 0 and self._projector is not None:
                self._projector.check_file()
            await asyncio.sleep(_OPEN_RETRY_DELAY)
        self._refuse_while_rebuilding()
        raise FileMissing(self._path)

    async def _open_now(self) -> _Reader | None:
        """Return None when there is no file, or it was replaced while it was opened."""
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
    """Let SQLite check the clock every few thousand steps, and interrupt the query."""
    if seconds == inf:
        yield
        return
    end = time.monotonic() + seconds
    await database.set_progress_handler(lambda: time.monotonic() > end, _STEPS_BETWEEN_CHECKS)
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            raise QueryTimeout(seconds) from None
        raise
    finally:
        await database.set_progress_handler(None, 0)  # type: ignore[arg-type]


async def _connect(path: Path) -> aiosqlite.Connection:
    database = await _opened(
        aiosqlite.connect(read_only(path), uri=True, iter_chunk_size=_CHUNK_ROWS)
    )
    try:
        await database.execute("PRAGMA query_only = ON")
        await database.execute("PRAGMA busy_timeout = 5000")
        # Opens the file: until something is read, only its name is known.
        found = await schema_version(database)
        if found is None:
            raise FileDamaged("the file is not a projection")
        if found != str(SCHEMA_VERSION):
            raise ProjectionOutdated(path, found, SCHEMA_VERSION)
        require_complete(await lacking(database))
    except BaseException:
        await database.close()
        raise
    return database


async def _opened(connection: aiosqlite.Connection) -> aiosqlite.Connection:
    """Open the connection. A cancelled caller waits for its thread, and closes it.

    aiosqlite would leave the thread behind, and it fails when it outlives the event loop.
    """
    opening = asyncio.ensure_future(connection)
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        await asyncio.wait([opening])
        if opening.exception() is None:
            await connection.close()
        raise


async def _close(reader: _Reader | None) -> None:
    if reader is not None:
        await reader.database.close()
