"""Jobs whose time is up leave the log, and the projection after it.

Read the history, archive it, purge exactly what was read, then drop the row: in this order, so that
a crash at any step is made good by the next sweep, and a retry that comes in between wins (D24).
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jobs_admin.projection.rows import microseconds
from trellis_jobs.jetstream.purging import purge_job
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job import fold

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from jobs_admin.projection.projector import Projector
    from jobs_admin.reads.readers import Readers
    from jobs_admin.retention.archive import Archive
    from jobs_admin.retention.policy import RetentionPolicy
    from trellis_jobs.jetstream.connection import Connection
    from trellis_jobs.jetstream.event_log import EventLog
    from trellis_jobs.model.job import Job

log = logging.getLogger(__name__)

_AT_ONCE: Final = 100

_DUE: Final = (
    "SELECT service, type, id FROM jobs_projection WHERE state = ? AND ended_at <= ? "
    "ORDER BY ended_at LIMIT ?"
)
_HOW_MANY_DUE: Final = "SELECT count(*) FROM jobs_projection WHERE state = ? AND ended_at <= ?"


@dataclass(slots=True)
class Swept:
    """What a sweep did, by state."""

    removed: Counter[str] = field(default_factory=Counter)
    revived: int = 0


@dataclass(frozen=True, slots=True)
class Doors:
    """What retention reaches jobs through."""

    connection: Connection
    events: EventLog
    readers: Readers
    projector: Projector


class Retention:
    def __init__(
        self,
        policy: RetentionPolicy,
        archive: Archive,
        doors: Doors,
        now: Callable[[], datetime],
    ) -> None:
        self._policy = policy
        self._archive = archive
        self._doors = doors
        self._now = now

    async def due(self) -> Counter[str]:
        """How many jobs the next sweeps will remove: a dry run."""
        found: Counter[str] = Counter()
        for state, before in self._policy.limits(self._now()):
            row = await self._doors.readers.row(_HOW_MANY_DUE, (state.value, microseconds(before)))
            found[state.value] = int(row[0]) if row else 0
        return +found

    async def sweep(self) -> Swept:
        """Everything that is due now, in small portions."""
        swept = Swept()
        for state, before in self._policy.limits(self._now()):
            while due := await self._doors.readers.rows(
                _DUE, (state.value, microseconds(before), _AT_ONCE)
            ):
                if not await self._remove([JobAddress(*row) for row in due], swept):
                    break
        if swept.removed:
            log.info("jobs were removed after their time", extra={"jobs": dict(swept.removed)})
        return swept

    async def _remove(self, addresses: Sequence[JobAddress], swept: Swept) -> bool:
        """False when none of them left its row: the projection has not caught up with the log."""
        histories = [await self._doors.events.history(address) for address in addresses]
        over = [
            (job, history)
            for history in histories
            if (job := fold(history)) is not None and self._is_due(job)
        ]
        await self._archive.keep(over, self._now().date())
        for job, history in over:
            up_to = history[-1].sequence
            await purge_job(self._doors.connection, job.address, up_to=up_to)
            swept.removed[job.state.value] += 1
        ends = {job.address: history[-1].sequence for job, history in over}
        gone = {a for a, history in zip(addresses, histories, strict=True) if not history}
        left = [
            await self._forget(address, ends.get(address))
            for address in addresses
            if address in ends or address in gone
        ]
        return any(left)

    async def _forget(self, address: JobAddress, up_to: int | None) -> bool:
        """A job that another replica took out of the log has no events left to go by."""
        position = self._doors.projector.position if up_to is None else up_to
        return await self._doors.projector.forget(address, position)

    def _is_due(self, job: Job) -> bool:
        """By the log, not by the row: a retry may have begun a new run."""
        ended = job.run.ended_at
        return (
            ended is not None and job.is_over and self._policy.is_due(job.state, ended, self._now())
        )
