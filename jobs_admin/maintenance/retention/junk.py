"""Removes what strangers left in the streams: messages that are no events, and work of no queue.

A service may publish anything under its own subjects, and the server keeps it. Messages of the log
are removed one by one, and each is read again before that: the projection only proposes.
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
_MOST_WORK: Final = 10_000
# After each removal, as a multiple of the time that it took: the rest is left to running work.
_REST: Final = 4.0


class Fate(Enum):
    GONE = auto()
    KEPT = auto()
    TOO_YOUNG = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class JunkRemoval:
    """`age`: how long junk of the log is kept, None for ever. `now` is the server's time."""

    age: timedelta | None
    doors: RetentionDependencies
    now: Callable[[], Awaitable[datetime]]
    went_on: Callable[[], None] = lambda: None

    async def sweep(self) -> int:
        """How many messages were removed from both streams."""
        removed = await self._remove_work()
        if self.age is not None:
            removed += await self._remove_from_log(await self.now() - self.age)
        if removed:
            log.warning("removed %d messages that are no events and no work", removed)
        return removed

    async def _remove_work(self) -> int:
        """Work messages under the reserved service name, for which there can be no queue.

        The filter of the source cannot exclude `trellis.jobs.workers.<a>.<b>.created`.
        """
        removed = 0
        while removed < _MOST_WORK:
            began = time.monotonic()
            found = await stored_message.next_from(
                self.doors.connection, WORK, subjects.RESERVED_WORK, 1
            )
            if found is None:
                break
            await stored_message.delete(self.doors.connection, WORK, found.sequence)
            removed += 1
            await self._rest(began)
        return removed

    async def _remove_from_log(self, before: datetime) -> int:
        """The oldest first, until one is too young."""
        after, removed = 0, 0
        while page := await oldest(self.doors.readers, after=after, limit=_PAGE):
            gone: list[int] = []
            for sequence in page:
                fate = await self._judge(sequence, before)
                if fate is Fate.TOO_YOUNG:
                    break
                if fate is Fate.GONE:
                    gone.append(sequence)
            await self.doors.projector.forget_undecodable(gone)
            removed += len(gone)
            if fate is Fate.TOO_YOUNG:
                break
            after = page[-1]
        return removed

    async def _judge(self, sequence: int, before: datetime) -> Fate:
        began, connection = time.monotonic(), self.doors.connection
        found = await stored_message.at_sequence(connection, LOG, sequence)
        if found is None:
            return Fate.GONE
        if found.stored_at > before:
            return Fate.TOO_YOUNG
        # Purging a subject up to a sequence removes all that came before, which may be an event.
        first = await stored_message.next_from(connection, LOG, found.subject, 1)
        if first is None or first.sequence != sequence:
            return Fate.KEPT
        if not is_junk(first.subject, first.data, first.headers):
            return Fate.KEPT
        await purge_subject(connection, first.subject, up_to=sequence)
        await self._rest(began)
        return Fate.GONE

    async def _rest(self, began: float) -> None:
        self.went_on()
        await asyncio.sleep(_REST * (time.monotonic() - began))
