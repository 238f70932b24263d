"""Removes ended jobs from the log, and then from the projection.

It reads the history, archives it, purges exactly what was read, then drops the row. In this order
the next sweep repairs a crash at any step, and a retry that comes in between wins (D24): the row of
such a job is made again from what remains in the log.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jobs_admin.gather_limited import gather_limited
from jobs_admin.projection.rows import moment_of
from jobs_admin.reads.candidates import PageEnd, due
from trellis_jobs.contract.topology import LOG
from trellis_jobs.errors import NotConfirmed
from trellis_jobs.jetstream.client import stored_message
from trellis_jobs.jetstream.log.history import REPLICA_LAG_TIMEOUT, Histories
from trellis_jobs.jetstream.log.purge import has_events, purge_job
from trellis_jobs.model import subjects
from trellis_jobs.model.job import Entry, fold
from trellis_jobs.wire import log as wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import datetime

    from jobs_admin.maintenance.retention.archive import Archive
    from jobs_admin.projection.projector import Projector
    from jobs_admin.reads.readers import Readers
    from jobs_admin.retention_policy import RetentionPolicy
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.log.feed import LogMessage
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.job import Job

log = logging.getLogger(__name__)

_BATCH_SIZE: Final = 100
# The pause after each purge, as a multiple of the time that it took, to spare running work.
_REST: Final = 4.0


@dataclass(slots=True)
class Swept:
    """How many jobs a sweep removed, by state. Jobs retried in the meantime are not removed."""

    removed: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _History:
    """A job's events in the log, and when the server stored the newest one.

    `end` is the sequence of the last message under the job's subjects, whether an event or not.
    """

    address: JobAddress
    entries: Sequence[Entry]
    newest_at: datetime | None
    end: int


@dataclass(frozen=True, slots=True)
class RetentionDependencies:
    """The connections that retention uses."""

    connection: Connection
    readers: Readers
    projector: Projector


class Retention:
    def __init__(
        self,
        policy: RetentionPolicy,
        archive: Archive,
        dependencies: RetentionDependencies,
        now: Callable[[], Awaitable[datetime]],
        report_progress: Callable[[], None] | None = None,
    ) -> None:
        """`now` must be the server's time: a wrong clock could remove every job.

        `report_progress` is called after each batch, because there may be a million jobs to remove.
        """
        self._policy = policy
        self._archive = archive
        self._dependencies = dependencies
        self._histories = Histories(dependencies.connection, deletes_consumers=True)
        self._now = now
        self._went_on = report_progress

    async def sweep(self) -> Swept:
        """Remove everything that is due now, in small batches."""
        swept, now = Swept(), await self._now()
        for state, before in self._policy.limits(now):
            page_end = PageEnd()
            while True:
                some, page_end = await due(
                    self._dependencies.readers, state, before, after=page_end, limit=_BATCH_SIZE
                )
                if not some:
                    break
                await self._remove(some, swept, now)
                if self._went_on is not None:
                    self._went_on()
        if swept.removed:
            counted = ", ".join(f"{n} {state}" for state, n in swept.removed.items())
            log.info("retention removed jobs: %s", counted, extra={"jobs": dict(swept.removed)})
        return swept

    async def _remove(
        self, begun_at: Mapping[JobAddress, int], swept: Swept, now: datetime
    ) -> None:
        known_up_to = self._dependencies.projector.position
        histories = await gather_limited(self._read, list(begun_at))
        over = [
            (job, history)
            for history in histories
            if (job := fold(history.entries)) is not None and self._is_due(job, history, now)
        ]
        await self._archive.keep([(job, history.entries) for job, history in over], now.date())
        await self._purge([history for _, history in over])
        purged = {history.address: history.end for _, history in over}
        by_others = await self._purged_by_others(histories, begun_at, known_up_to)
        await self._dependencies.projector.forget(
            by_others | purged, self._remaining, await self._now()
        )
        revived = await gather_limited(self._is_there, list(purged))
        swept.removed.update(
            job.state.value
            for (job, _), is_there in zip(over, revived, strict=True)
            if not is_there
        )

    async def _purge(self, histories: Sequence[_History]) -> None:
        """Purge one by one, with pauses: while the server purges, all writers of the log wait."""
        for history in histories:
            began = time.monotonic()
            await purge_job(self._dependencies.connection, history.address, up_to=history.end)
            await asyncio.sleep(_REST * (time.monotonic() - began))

    async def _purged_by_others(
        self, histories: Sequence[_History], begun_at: Mapping[JobAddress, int], known_up_to: int
    ) -> dict[JobAddress, int]:
        """Return up to where jobs were purged that have left the log or lost their first events."""
        found = {}
        for history in histories:
            address, entries = history.address, history.entries
            if entries and entries[0].sequence > begun_at[address]:
                found[address] = entries[0].sequence - 1
            elif not entries and await self._has_left(history):
                found[address] = known_up_to
        return found

    async def _has_left(self, history: _History) -> bool:
        """Ask the leader too: a replica that is behind may miss a job that is in the log."""
        return history.end > 0 or not await has_events(
            self._dependencies.connection, history.address
        )

    async def _remaining(self, address: JobAddress, after: int, at_least: int) -> list[LogMessage]:
        """Read what remains of a job; raises NotConfirmed when the replica is too far behind."""
        remaining = await self._histories.messages(address, after=after, at_least=at_least)
        if not remaining or remaining[-1].sequence < at_least:
            history = subjects.history(address)
            newest = await stored_message.newest(self._dependencies.connection, LOG, history)
            if newest is not None and newest.sequence >= at_least:
                raise NotConfirmed(
                    f"a read of {address.job_id}", REPLICA_LAG_TIMEOUT, address.job_id
                )
        return remaining

    async def _is_there(self, address: JobAddress) -> bool:
        """False also if what remains of a purged job does not make a job."""
        if not await has_events(self._dependencies.connection, address):
            return False
        return fold((await self._read(address)).entries) is not None

    async def _read(self, address: JobAddress) -> _History:
        entries: list[Entry] = []
        newest_at, end = None, 0
        for message in await self._histories.messages(address):
            read = wire.read(message.subject, message.sequence, message.data, message.headers)
            end = message.sequence
            if isinstance(read, Entry):
                entries.append(read)
                newest_at = moment_of(message.stored_ns // 1000)
        return _History(address, entries, newest_at, end)

    def _is_due(self, job: Job, history: _History, now: datetime) -> bool:
        """Decide by the log and not by the row, because a retry may have started a new run."""
        times = (job.run.ended_at, history.newest_at)
        return job.is_over and all(
            at is not None and self._policy.is_due(job.state, at, now) for at in times
        )
