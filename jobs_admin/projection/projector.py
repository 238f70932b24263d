"""Takes the log in as it grows, and knows how far it is."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from jobs_admin.projection.files import FileDamaged, FileReplaced, beside
from jobs_admin.projection.fitness import noticing_damage, why_unfit
from jobs_admin.projection.intake import Intake
from jobs_admin.projection.rebuild import rebuild
from jobs_admin.projection.store import Projection
from trellis_jobs.jetstream.log_feed import LogReplaced

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from jobs_admin.projection.rebuild import Progress
    from trellis_jobs.jetstream.log_feed import LogFeed
    from trellis_jobs.model.identity import JobAddress

log = logging.getLogger(__name__)


class Projector:
    """`position` is how far the projection is, `behind` how many messages were still to come.

    The file is rebuilt where it does not go on with the log, and opened again where somebody else
    has rebuilt it.
    """

    def __init__(self, feed: LogFeed, path: Path, progress: Progress | None = None) -> None:
        self.position = 0
        self.behind: int | None = None
        self.newest_ns = 0
        self._feed = feed
        self._path = path
        self._progress = progress
        self._opened = AsyncExitStack()
        self._intake: Intake | None = None
        self._moved = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def open(
        cls, feed: LogFeed, path: Path, progress: Progress | None = None
    ) -> AsyncIterator[Projector]:
        """The one writer of a file, which fits the log once this is entered."""
        projector = cls(feed, path, progress)
        try:
            await projector._open()
            yield projector
        finally:
            await projector._close()

    async def run(self, *, until: int | None = None) -> None:
        """Without end, or up to a sequence."""
        while not await self._run(until):
            pass

    async def reached(self, sequence: int) -> None:
        """Returns once the projection has taken in everything up to there (design D17)."""
        while self.position < sequence:
            await self._moved.wait()

    async def forget(self, up_to: Mapping[JobAddress, int]) -> None:
        """Take out jobs that retention took out of the log up to there, unless they went on."""
        if self._intake is not None:
            await self._intake.forget(up_to)

    async def _run(self, until: int | None) -> bool:
        """Whether that was all; else the file or the log is another now."""
        intake = self._intake or await self._open()
        try:
            with noticing_damage():
                await self._follow(intake, until)
        except FileReplaced as replaced:
            await self._close()
            log.info("the projection is opened again", extra={"reason": str(replaced)})
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

    async def _follow(self, intake: Intake, until: int | None) -> None:
        if until is not None and self.position >= until:
            return
        async with aclosing(self._feed.batches(intake.place)) as batches:
            async for batch in batches:
                await intake.take_in(batch)
                self.behind, self.newest_ns = batch[-1].pending, batch[-1].stored_ns
                self._announce(batch[-1].sequence)
                if until is not None and self.position >= until:
                    return

    async def _open(self) -> Intake:
        await self._prepare()
        with noticing_damage():
            projection = await self._opened.enter_async_context(Projection.open(self._path))
            self._intake = Intake(projection, await projection.place())
        self._announce(self._intake.place.sequence)
        return self._intake

    async def _close(self) -> None:
        self._intake = None
        await self._opened.aclose()

    async def _prepare(self) -> None:
        """Afterwards there is a file that goes on with this log; a new one if need be."""
        try:
            reason = await why_unfit(self._path, self._feed)
        except FileDamaged as damage:
            await self._mend(damage)
        else:
            if reason is not None:
                await self._rebuild(reason)

    async def _mend(self, damage: FileDamaged) -> None:
        """What is left of the file is kept for people to look at."""
        await self._rebuild(str(damage), keep_old_as=beside(self._path, "damaged"))

    async def _rebuild(self, reason: str, keep_old_as: Path | None = None) -> None:
        log.warning("the projection is rebuilt", extra={"path": str(self._path), "reason": reason})
        await rebuild(self._path, self._feed, self._progress, keep_old_as=keep_old_as)

    def _announce(self, position: int) -> None:
        self.position = position
        self._moved.set()
        self._moved = asyncio.Event()
