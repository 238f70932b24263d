"""Read-only connections to the projection, one for each question that is asked at the time."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import aiosqlite

from jobs_admin.projection.files import file_id, read_only

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from jobs_admin.projection.files import FileId

READERS: Final = 4
# While a rebuilt file is put in the old one's place, there is none for a moment.
_LOOKS: Final = 50
_LOOK: Final = 0.01


@dataclass(frozen=True, slots=True)
class _Reader:
    database: aiosqlite.Connection
    file: FileId


class Readers:
    """A file that was replaced is noticed with the next question, and opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: asyncio.LifoQueue[_Reader | None] = asyncio.LifoQueue()

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, count: int = READERS) -> AsyncIterator[Readers]:
        readers = cls(path)
        opened = [await readers._open() for _ in range(count)]
        for reader in opened:
            readers._idle.put_nowait(reader)
        try:
            yield readers
        finally:
            for _ in range(count):
                await _close(await readers._idle.get())

    async def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        async with self._one() as database:
            return [tuple(row) for row in await database.execute_fetchall(query, values)]

    async def row(self, query: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        found = await self.rows(query, values)
        return found[0] if found else None

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[aiosqlite.Connection]:
        """Several questions to the same moment of the projection."""
        async with self._one() as database:
            await database.execute("BEGIN")
            try:
                yield database
            finally:
                await database.execute("ROLLBACK")

    @asynccontextmanager
    async def _one(self) -> AsyncIterator[aiosqlite.Connection]:
        reader = await self._idle.get()
        try:
            if reader is None or reader.file != file_id(self._path):
                stale, reader = reader, None
                await _close(stale)
                reader = await self._open()
            yield reader.database
        finally:
            self._idle.put_nowait(reader)

    async def _open(self) -> _Reader:
        """Raises aiosqlite's own error when there is no file, nor one to come."""
        for look in range(_LOOKS):
            file = file_id(self._path)
            if file is not None:
                reader = _Reader(await _connect(self._path), file)
                if file_id(self._path) == file:
                    return reader
                await _close(reader)
            if look < _LOOKS - 1:
                await asyncio.sleep(_LOOK)
        raise aiosqlite.OperationalError(f"there is no projection at {self._path}")


async def _connect(path: Path) -> aiosqlite.Connection:
    database = await aiosqlite.connect(read_only(path), uri=True)
    try:
        await database.execute("PRAGMA query_only = ON")
        await database.execute("PRAGMA busy_timeout = 5000")
        # Opens the file: until something is read, only its name is known.
        await database.execute_fetchall("SELECT 1 FROM sqlite_master LIMIT 1")
    except BaseException:
        await database.close()
        raise
    return database


async def _close(reader: _Reader | None) -> None:
    if reader is not None:
        await reader.database.close()
