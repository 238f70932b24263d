"""Read-only connections to the projection, one for each question that is asked at the time."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import aiosqlite

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

READERS: Final = 4


class Readers:
    def __init__(self, databases: list[aiosqlite.Connection]) -> None:
        self._idle: asyncio.LifoQueue[aiosqlite.Connection] = asyncio.LifoQueue()
        for database in databases:
            self._idle.put_nowait(database)

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, count: int = READERS) -> AsyncIterator[Readers]:
        address = f"file:{quote(str(path))}?mode=ro"
        async with AsyncExitStack() as opened:
            databases = []
            for _ in range(count):
                database = await opened.enter_async_context(aiosqlite.connect(address, uri=True))
                await database.execute("PRAGMA query_only = ON")
                await database.execute("PRAGMA busy_timeout = 5000")
                databases.append(database)
            yield cls(databases)

    async def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        database = await self._idle.get()
        try:
            return [tuple(row) for row in await database.execute_fetchall(query, values)]
        finally:
            self._idle.put_nowait(database)

    async def row(self, query: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        found = await self.rows(query, values)
        return found[0] if found else None

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[aiosqlite.Connection]:
        """Several questions to the same moment of the projection."""
        database = await self._idle.get()
        try:
            await database.execute("BEGIN")
            yield database
        finally:
            await database.execute("ROLLBACK")
            self._idle.put_nowait(database)
