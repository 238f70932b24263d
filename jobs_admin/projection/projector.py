"""Follows the log and applies it to the projection."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs_admin.api.errors import ProjectionRebuilding
from jobs_admin.priority import Throttle
from jobs_admin.projection.compatibility import translate_sqlite_errors, why_incompatible
from jobs_admin.projection.file_watch import FileWatch
from jobs_admin.projection.files import FileDamaged, FileReplaced, beside, file_id
from jobs_admin.projection.ingest import Ingest
from jobs_admin.projection.rebuild import rebuild
from jobs_admin.projection.rebuild_progress import RebuildProgress
from jobs_admin.projection.recent_changes import RecentChanges
from jobs_admin.projection.store import Projection
from jobs_admin.projection.writer import Writer
from trellis_jobs.jetstream.log.feed import LogReplaced

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path
    from typing import Any

    from jobs_admin.projection.ingest import ReadJob
    from trellis_jobs.jetstream.log.feed import LogFeed
    from trellis_jobs.model.identity import JobAddress

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _OpenFile:
    ingest: Ingest
    watch: FileWatch


class Projector:
    """`position` is the last applied sequence of the log.

    A file that does not belong to the log is rebuilt, and a file that another process has rebuilt
    is opened again. `rebuilding` is set while the file must not be read. `recent` has the changes
    of the last moments.
    `nice` lowers the priority of the thread that writes the file.
    """

    def __init__(self, feed: LogFeed, path: Path, *, nice: int = 0) -> None:
        self.position = 0
        self.rebuilding: RebuildProgress | None = None
        self.recent = RecentChanges()
        self._feed = feed
        self._path = path
        self._throttle = Throttle(nice)
        self._opened = AsyncExitStack()
        self._file: _OpenFile | None = None
        self._is_open = asyncio.Event()
        self._was_open = False
        self._moved = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def open(cls, feed: LogFeed, path: Path, *, nice: int = 0) -> AsyncIterator[Projector]:
        """Open the only writer of a file. Only `run` rebuilds a file that does not fit the log."""
        projector = cls(feed, path, nice=nice)
        try:
            await projector._open_if_fit()
            yield projector
        finally:
            await projector._close()

    async def run(self, *, until: int | None = None) -> None:
        """Follow the log forever, or up to a sequence."""
        while not await self._run(until):
            pass

    async def until_open(self) -> None:
        """Wait until there is a usable file."""
        await self._is_open.wait()

    async def wait_for(self, sequence: int) -> None:
        """Wait until the projection has reached this sequence (design D17).

        Raises ProjectionRebuilding instead of waiting for a rebuild.
        """
        if self.position >= sequence:
            return
        with self._throttle:
            while self.position < sequence:
                self.raise_if_rebuilding()
                await self._moved.wait()

    async def wait_beyond(self, sequence: int) -> None:
        """Wait for a later position, without hurry: the projector may rest meanwhile."""
        while self.position <= sequence:
            await self._moved.wait()

    def raise_if_rebuilding(self) -> None:
        if self.rebuilding is not None:
            raise ProjectionRebuilding(self.rebuilding.done, self.rebuilding.total)

    def check_file(self, damage: FileDamaged | None = None) -> None:
        """Check the file at once, because a reader failed."""
        if self._file is not None:
            self._file.watch.look(damage)

    async def forget(
        self, up_to: Mapping[JobAddress, int], read_job: ReadJob, now: datetime
    ) -> None:
        """Remove jobs that retention purged from the log, except what remains of them.

        `now` is the server's time.
        """
        file = self._file
        if file is not None:
            file.watch.wrote()
            await file.ingest.forget(up_to, read_job, now)
            file.watch.wrote()

    async def forget_undecodable(self, sequences: Sequence[int]) -> None:
        """Remove undecodable messages that have left the log."""
        file = self._file
        if file is not None and sequences:
            file.watch.wrote()
            await file.ingest.forget_undecodable(sequences)
            file.watch.wrote()

    async def _run(self, until: int | None) -> bool:
        """Return False when the file or the log was replaced, to start again."""
        file = self._file or await self._open()
        try:
            with translate_sqlite_errors():
                await _first_of(self._follow(file, until), file.watch.watch())
        except FileReplaced as replaced:
            await self._close()
            log.info("reopening the projection: %s", replaced, extra={"reason": str(replaced)})
        except FileDamaged as damage:
            await self._close()
            await self._mend(damage)
        except LogReplaced as replaced:
            await self._close()
            await self._rebuild(str(replaced))
        except Exception:
            await self._close()
            raise
        else:
            return True
        return False

    async def _follow(self, file: _OpenFile, until: int | None) -> None:
        if until is not None and self.position >= until:
            return
        async with aclosing(self._feed.batches(file.ingest.position)) as batches:
            async for batch in batches:
                file.watch.wrote()
                used = await file.ingest.apply(batch)
                file.watch.wrote()
                self.recent.add(batch)
                self._announce(batch[-1].sequence)
                if until is not None and self.position >= until:
                    return
                await self._throttle.rest(used, pending=batch[-1].pending)

    async def _open_if_fit(self) -> None:
        """Raises ProjectionUnusable for a database that is not a projection."""
        self.rebuilding = RebuildProgress(self._path)
        try:
            reason = await why_incompatible(self._path, self._feed)
        except FileDamaged:
            return
        if reason is None:
            await self._open()

    async def _open(self) -> _OpenFile:
        await self._make_fit()
        with translate_sqlite_errors():
            opening = Projection.open(self._path, nice=self._throttle.nice)
            projection = await self._opened.enter_async_context(opening)
            ingest = Ingest(projection, await projection.do(Writer.position))
        file = self._file = _OpenFile(ingest, FileWatch(self._path))
        self.rebuilding = None
        self._was_open = True
        self._is_open.set()
        self.recent.begin(ingest.position.sequence)
        self._announce(ingest.position.sequence)
        return file

    async def _close(self) -> None:
        self._is_open.clear()
        self._file = None
        await self._opened.aclose()

    async def _make_fit(self) -> None:
        """Rebuild the file if it cannot be continued with this log."""
        try:
            reason = await why_incompatible(self._path, self._feed)
        except FileDamaged as damage:
            await self._mend(damage)
        else:
            if reason is not None:
                await self._rebuild(reason)

    async def _mend(self, damage: FileDamaged) -> None:
        """Rebuild the file, and keep the damaged one for inspection."""
        await self._rebuild(str(damage), keep_old_as=beside(self._path, "damaged"))

    async def _rebuild(self, reason: str, keep_old_as: Path | None = None) -> None:
        is_the_first = file_id(self._path) is None and not self._was_open
        log.log(
            logging.INFO if is_the_first else logging.WARNING,
            "rebuilding the projection %s: %s",
            self._path,
            reason,
            extra={"path": str(self._path), "reason": reason},
        )
        self.rebuilding = RebuildProgress(self._path)
        self._announce(self.position)
        tell = self.rebuilding.tell
        await rebuild(
            self._path,
            self._feed,
            tell,
            keep_old_as=keep_old_as,
            throttle=self._throttle,
        )

    def _announce(self, position: int) -> None:
        self.position = position
        self._moved.set()
        self._moved = asyncio.Event()


async def _first_of(*works: Coroutine[Any, Any, None]) -> None:
    """Run until one of them returns or raises, then cancel the others."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
