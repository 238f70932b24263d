"""Rebuilds a projection from the log in a second file, which then replaces the first.

Until the swap, the old file is read and written as usual. During the swap its write lock is held: a
projector that has it open commits nothing more, finds another file at the path, and continues with
that one. So readers never see the projection go back.
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

_LOCK_TIMEOUT: Final = 30.0
_BATCH_MESSAGES: Final = 5_000
_BATCH_BYTES: Final = 32 * 1024 * 1024


class RebuildInProgress(AdminError):
    def __init__(self, path: Path) -> None:
        super().__init__(f"another process is already rebuilding {path}")
        self.path = path


class CopyFailed(AdminError):
    """The second file could not be written; the file at the path is unchanged."""

    def __init__(self, path: Path, why: Exception) -> None:
        super().__init__(
            f"cannot write a second file beside {path}: {why}; this needs a writable folder and as "
            "much free disk space as the file has"
        )
        self.path = path


@dataclass(frozen=True, slots=True)
class Filled:
    """`position` is a sequence of the log, `messages` how many messages there were up to it."""

    position: int
    messages: int


async def rebuild(
    path: Path,
    feed: LogFeed,
    tell: ReportProgress | None = None,
    *,
    keep_old_as: Path | None = None,
    lock_timeout: float = _LOCK_TIMEOUT,
    throttle: Throttle | None = None,
) -> Filled:
    """Raises RebuildInProgress when another process rebuilds this file, and CopyFailed.

    Raises FileLocked when another writer keeps the old file locked for `lock_timeout` seconds.
    """
    with temporary_file(path, "rebuilding") as fresh:
        filled = await fill(fresh, feed, tell, throttle=throttle)
        async with _held(path, lock_timeout) as shown:
            await catch_up(fresh, feed, shown, throttle=throttle)
            await asyncio.to_thread(put_in_place, fresh, path, keep_old_as=keep_old_as)
    log.info(
        "rebuilt the projection %s from %s messages, up to position %s",
        path,
        filled.messages,
        filled.position,
        extra={"path": str(path), "messages": filled.messages, "position": filled.position},
    )
    return filled


@contextmanager
def temporary_file(path: Path, what: str) -> Iterator[Path]:
    """A temporary file beside another, for one process at a time; it is removed afterwards.

    Raises RebuildInProgress, and CopyFailed when the disk is full or not writable.
    """
    file = beside(path, what)
    try:
        with only_writer(file):
            remove(file)
            try:
                yield file
            finally:
                remove(file)
    except ProjectionLocked:
        raise RebuildInProgress(path) from None
    except (aiosqlite.OperationalError, OSError) as error:
        raise CopyFailed(path, error) from error


async def fill(
    fresh: Path,
    feed: LogFeed,
    tell: ReportProgress | None = None,
    *,
    up_to: LogPosition | None = None,
    throttle: Throttle | None = None,
) -> Filled:
    """Project the log into a new file, with its indexes: all of it, or only to a position."""
    extent = await feed.extent()
    last = extent.last_sequence if up_to is None else min(up_to.sequence, extent.last_sequence)
    if tell is not None:
        tell(0, extent.messages)
    async with Projection.open(
        fresh, bulk=True, nice=throttle.nice if throttle else 0
    ) as projection:
        ingest = Ingest(projection, LogPosition(created=extent.created))
        done = 0
        async for batch in _larger_batches(feed.up_to(ingest.position, last)):
            used = await ingest.apply(batch)
            done += len(batch)
            if tell is not None:
                tell(done, done + batch[-1].pending)
            if throttle is not None:
                await throttle.rest(used, pending=batch[-1].pending)
        await ingest.complete(last)
        await projection.do(Writer.add_indexes)
    return Filled(last, done)


async def catch_up(
    fresh: Path, feed: LogFeed, shown: LogPosition, *, throttle: Throttle | None = None
) -> None:
    """Apply what another projection of the same log has shown in the meantime."""
    async with Projection.open(
        fresh, bulk=True, nice=throttle.nice if throttle else 0
    ) as projection:
        ingest = Ingest(projection, await projection.do(Writer.position))
        begin = ingest.position
        if shown.created == begin.created and shown.sequence > begin.sequence:
            async for batch in feed.up_to(begin, shown.sequence):
                await ingest.apply(batch)
            await ingest.complete(shown.sequence)
        await projection.do(Writer.set_filled_at, (await feed.extent()).now)
        await projection.do(Writer.seal)


async def _larger_batches(
    batches: AsyncIterator[list[LogMessage]],
) -> AsyncIterator[list[LogMessage]]:
    """Merge batches: the more events of a job are in one, the fewer times its row is written."""
    heap: list[LogMessage] = []
    size = 0
    async for batch in batches:
        heap += batch
        size += sum(len(message.data) for message in batch)
        if len(heap) >= _BATCH_MESSAGES or size >= _BATCH_BYTES:
            yield heap
            heap, size = [], 0
    if heap:
        yield heap


@asynccontextmanager
async def _held(path: Path, timeout: float) -> AsyncIterator[LogPosition]:
    """Lock the file against writers within the block, and yield its position.

    A missing or unreadable file has no writer and no content. Raises FileLocked when another
    process keeps it locked.
    """
    if file_id(path) is None:
        yield LogPosition()
        return
    async with aiosqlite.connect(path, isolation_level=None, timeout=timeout) as database:
        try:
            with translate_sqlite_errors():
                await database.execute("BEGIN IMMEDIATE")
                position = await position_of(database)
        except (aiosqlite.DatabaseError, FileDamaged) as error:
            log.warning(
                "the old projection cannot be read, so the log is read from its start: %s",
                error,
                extra={"error": str(error)},
            )
            position = LogPosition()
        yield position
