"""Opens the projection's SQLite file for writing, in a separate thread."""

from __future__ import annotations

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from jobs_admin.priority import lower_priority
from jobs_admin.projection.files import made
from jobs_admin.projection.writer import Writer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

P = ParamSpec("P")
T = TypeVar("T")


class Projection:
    """A writer and its thread."""

    def __init__(self, writer: Writer, thread: ThreadPoolExecutor) -> None:
        self._writer = writer
        self._thread = thread

    @classmethod
    @asynccontextmanager
    async def open(
        cls, path: Path, *, bulk: bool = False, nice: int = 0
    ) -> AsyncIterator[Projection]:
        """`bulk`: for a new file without readers, which is discarded if this fails.

        `nice` lowers the priority of the thread, so that it yields to work on the same machine.
        Raises ProjectionOutdated when the file has another schema.
        """
        file = made(path)
        database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        with ThreadPoolExecutor(1, "projection", partial(lower_priority, nice)) as thread:
            projection = cls(Writer(database, path, file), thread)
            try:
                await projection.do(Writer.prepare, bulk=bulk)
                yield projection
            finally:
                await projection.do(Writer.close)

    async def do(
        self, work: Callable[Concatenate[Writer, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run `work` after earlier work; it finishes even if the caller is cancelled."""
        begun = asyncio.get_running_loop().run_in_executor(
            self._thread, partial(work, self._writer, *args, **kwargs)
        )
        try:
            return await asyncio.shield(begun)
        except asyncio.CancelledError:
            await asyncio.wait([begun])
            raise
