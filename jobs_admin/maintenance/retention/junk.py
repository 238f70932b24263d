"""Removes junk from the streams: log messages that are not events, and work of no queue.

A service may publish anything under its own subjects, and the server stores it. The projection only
suggests which messages of the log to remove; each is read again before it is removed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from jobs_admin.reads.undecodable import oldest
from trellis_jobs.contract.topology import LOG, WORK
from trellis_jobs.jetstream.client import stored_message
from trellis_jobs.jetstream.log.purge import purge_subject
from trellis_jobs.model import subjects
from trellis_jobs.wire.junk import is_junk

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime, timedelta

    from jobs_admin.maintenance.retention.retention import RetentionDependencies

log = logging.getLogger(__name__)

_PAGE: Final = 100
_MAX_WORK_REMOVED: Final = 10_000
# The pause after each removal, as a multiple of the time that it took, to spare running work.
_REST: Final = 4.0


class JunkOutcome(Enum):
    GONE = auto()
    KEPT = auto()
    TOO_YOUNG = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class JunkRemoval:
    """`age` is how long junk is kept in the log, None for ever. `now` is the server's time."""

    age: timedelta | None
    dependencies: RetentionDependencies
    now: Callable[[], Awaitable[datetime]]
    report_progress: Callable[[], None] = lambda: None

    async def sweep(self) -> int:
        """Return how many messages were removed from both streams."""
        removed = await self._remove_work()
        if self.age is not None:
            removed += await self._remove_from_log(await self.now() - self.age)
        if removed:
            log.warning("removed %d messages that are neither events nor work", removed)
        return removed

    async def _remove_work(self) -> int:
        """Remove work messages under the reserved service name, which can have no queue.

        The source's filter cannot exclude `trellis.jobs.workers.<a>.<b>.created`.
        """
        removed = 0
        while removed < _MAX_WORK_REMOVED:
            began = time.monotonic()
            found = await stored_message.next_from(
                self.dependencies.connection, WORK, subjects.RESERVED_WORK, 1
            )
            if found is None:
                break
            await stored_message.delete(self.dependencies.connection, WORK, found.sequence)
            removed += 1
            await self._rest(began)
        return removed

    async def _remove_from_log(self, before: datetime) -> int:
        """Remove junk, oldest first, until a message is too young."""
        after, removed = 0, 0
        while page := await oldest(self.dependencies.readers, after=after, limit=_PAGE):
            gone: list[int] = []
            for sequence in page:
                fate = await self._judge(sequence, before)
                if fate is JunkOutcome.TOO_YOUNG:
                    break
                if fate is JunkOutcome.GONE:
                    gone.append(sequence)
            await self.dependencies.projector.forget_undecodable(gone)
            removed += len(gone)
            if fate is JunkOutcome.TOO_YOUNG:
                break
            after = page[-1]
        return removed

    async def _judge(self, sequence: int, before: datetime) -> JunkOutcome:
        began, connection = time.monotonic(), self.dependencies.connection
        found = await stored_message.at_sequence(connection, LOG, sequence)
        if found is None:
            return JunkOutcome.GONE
        if found.stored_at > before:
            return JunkOutcome.TOO_YOUNG
        # Purging a subject up to a sequence also removes older messages, which may be events.
        first = await stored_message.next_from(connection, LOG, found.subject, 1)
        if first is None or first.sequence != sequence:
            return JunkOutcome.KEPT
        if not is_junk(first.subject, first.data, first.headers):
            return JunkOutcome.KEPT
        await purge_subject(connection, first.subject, up_to=sequence)
        await self._rest(began)
        return JunkOutcome.GONE

    async def _rest(self, began: float) -> None:
        self.report_progress()
        await asyncio.sleep(_REST * (time.monotonic() - began))
