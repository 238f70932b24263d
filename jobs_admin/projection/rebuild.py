"""A projection made anew from the log beside the one at its path, which it then replaces.

The old file is answered from, and filled, until the moment of the swap. During it the old file's
write lock is held: a projector that has it open commits nothing more, finds another file at the
path, and goes on with that. So the projection never goes back behind what it has shown.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import aiosqlite

from jobs_admin.api.errors import AdminError, ProjectionLocked
from jobs_admin.file_lock import only_writer
from jobs_admin.projection.compatibility import translate_sqlite_errors
from jobs_admin.projection.files import FileDamaged, beside, file_id, put_in_place, remove
from jobs_admin.projection.ingest import Ingest
from jobs_admin.projection.metadata import position_of
from jobs_admin.projection.store import Projection
from jobs_admin.projection.writer import Writer
from trellis_jobs.jetstream.log.feed import LogPosition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from jobs_admin.priority import Throttle
    from trellis_jobs.jetstream.log.feed import LogFeed, LogMessage

log = logging.getLogger(__name__)

# Called with how many messages are done, and how many there are in all.
ReportProgress = Callable[[int, int], None]

_PATIENCE: Final = 30.0
_HEAP: Final = 5_000
_HEAP_BYTES: Final = 32 * 1024 * 1024


class RebuildInProgress(AdminError):
    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is being rebuilt by another process already")
        self.path = path


class CopyFailed(AdminError):
    """The file at the path is as it was."""

    def __init__(self, path: Path, why: Exception) -> None:
        super().__init__(
            f"a second file beside {path} was begun, and could not be finished: {why}; this needs "
            "a folder that can be written to, and as much disk space again"
        )
        self.path = path


@dataclass(frozen=True, slots=True)
class Filled:
    """`position` is a sequence of the log, `messages` how many were there up to it."""

    position: int
    messages: int


async def rebuild(
    path: Path,
    feed: LogFeed,
    tell: ReportProgress | None = None,
    *,
    keep_old_as: Path | None = None,
    patience: float = _PATIENCE,
    throttle: Throttle | None = None,
) -> Filled:
    """Raises RebuildInProgress when another process does the same for this file, and CopyFailed.

    FileLocked: somebody who writes into the old file does not let go of it for so many seconds.
    """
    with temporary_file(path, "rebuilding") as fresh:
        filled = await fill(fresh, feed, tell, throttle=throttle)
        async with _held(path, patience) as shown:
            await catch_up(fresh, feed, shown, throttle=throttle)
            await asyncio.to_thread(put_in_place, fresh, path, keep_old_as=keep_old_as)
    log.info(
        "the projection %s was rebuilt from %s messages, up to position %s",
        path,
        filled.messages,
        filled.position,
        extra={"path": str(path), "messages": filled.messages, "position": filled.position},
    )
    return filled


@contextmanager
def temporary_file(path: Path, what: str) -> Iterator[Path]:
    """A place beside a file for one process at a time; nothing stays there.

    Raises RebuildInProgress, and CopyFailed for what a full disk does to the block, and the like.
    """
    place = beside(path, what)
    try:
        with only_writer(place):
            remove(place)
            try:
                yield place
            finally:
                remove(place)
    except ProjectionLocked:
        raise RebuildInProgress(path) from None
    except (aiosqlite.OperationalError, OSError) as error:
        raise CopyFailed(path, error) from error


async def fill(
    fresh: Path,
    feed: LogFeed,
    tell: ReportProgress | None = None,
    *,
    throttle: Throttle | None = None,
) -> Filled:
    """A whole projection of the log as it is now, indexes included, in a file of its own."""
    extent = await feed.extent()
    if tell is not None:
        tell(0, extent.messages)
    async with Projection.open(
        fresh, bulk=True, nice=throttle.nice if throttle else 0
    ) as projection:
        ingest = Ingest(projection, LogPosition(created=extent.created))
        done = 0
        async for batch in _heaped(feed.up_to(ingest.place, extent.last_sequence)):
            used = await ingest.apply(batch)
            done += len(batch)
            if tell is not None:
                tell(done, done + batch[-1].pending)
            if throttle is not None:
                await throttle.rest(used, pending=batch[-1].pending)
        await ingest.complete(extent.last_sequence)
        await projection.do(Writer.add_indexes)
    return Filled(extent.last_sequence, done)


async def catch_up(
    fresh: Path, feed: LogFeed, shown: LogPosition, *, throttle: Throttle | None = None
) -> None:
    """Take in what another projection of the same log has shown meanwhile."""
    async with Projection.open(
        fresh, bulk=True, nice=throttle.nice if throttle else 0
    ) as projection:
        ingest = Ingest(projection, await projection.do(Writer.place))
        begin = ingest.place
        if shown.created == begin.created and shown.sequence > begin.sequence:
            async for batch in feed.up_to(begin, shown.sequence):
                await ingest.apply(batch)
            await ingest.complete(shown.sequence)
        await projection.do(Writer.seal)


async def _heaped(
    batches: AsyncIterator[list[LogMessage]],
) -> AsyncIterator[list[LogMessage]]:
    """In larger batches: the more events of a job are taken in at once, the fewer of its rows."""
    heap: list[LogMessage] = []
    size = 0
    async for batch in batches:
        heap += batch
        size += sum(len(message.data) for message in batch)
        if len(heap) >= _HEAP or size >= _HEAP_BYTES:
            yield heap
            heap, size = [], 0
    if heap:
        yield heap


@asynccontextmanager
async def _held(path: Path, patience: float) -> AsyncIterator[LogPosition]:
    """Nobody writes into the file within the block; gives how far it is.

    A file that is none, or that cannot be read any more, has no writer and holds nothing. Raises
    FileLocked where somebody else holds it.
    """
    if file_id(path) is None:
        yield LogPosition()
        return
    async with aiosqlite.connect(path, isolation_level=None, timeout=patience) as database:
        try:
            with translate_sqlite_errors():
                await database.execute("BEGIN IMMEDIATE")
                place = await position_of(database)
        except (aiosqlite.DatabaseError, FileDamaged) as error:
            log.warning(
                "the old projection cannot be read, so the log is read from its start: %s",
                error,
                extra={"error": str(error)},
            )
            place = LogPosition()
        yield place
