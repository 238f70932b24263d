"""Appends events that maintenance decides on, guarded by the job's last sequence.

The first attempt relies on the projection. If the job has changed since, the server refuses the
append, and the decision is made again from the log. So a projection that is behind does no harm.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from jobs_admin.actions.job_follower import FOLLOW_TIMEOUT, JobFollower
from trellis_jobs.contract.topology import LOG
from trellis_jobs.jetstream.client import stored_message
from trellis_jobs.jetstream.log.decide_again import Appended, append_planned
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.model.job import Entry
from trellis_jobs.wire import log as wire

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.log.event_log import EventLog, Latest, Refused
    from trellis_jobs.model.identity import JobAddress


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """`stored_at` is the server's time."""

    event: e.Event
    stored_at: datetime


class GuardedAppender:
    def __init__(
        self, connection: Connection, events: EventLog, *, timeout: float = FOLLOW_TIMEOUT
    ) -> None:
        self._connection = connection
        self._events = events
        self._timeout = timeout

    async def append(
        self, job: JobAddress, seen: Latest, plan: Callable[[Latest], e.Event | None]
    ) -> Appended[Latest] | None:
        """Append the planned event, and plan again whenever the job has changed.

        Returns None when the plan is to append nothing, or the job is gone. Raises JobContention
        when the job changes so often that every append is refused.
        """
        follower = self._follower(job)

        async def read(refusal: Refused) -> Latest | None:
            moved = await follower.after(refusal)
            return None if moved is None else moved.latest

        append = partial(self._events.try_append, timeout=self._timeout)
        answer = await append_planned(seen, plan, append=append, read=read)
        return answer if isinstance(answer, Appended) else None

    async def current(self, job: JobAddress) -> Latest | None:
        """Read the job's state from the stream leader; None when it is not in the log."""
        known = await self._follower(job).read()
        return None if known is None else known.latest

    async def unmoved(self, job: JobAddress, seen: Latest, known_up_to: int) -> Latest | None:
        """Return the job's state if it has no event newer than `seen`, else None.

        `known_up_to` is how far the projection had read the log. A newer message is an event that
        it has not read yet. An older message that it ignored is not an event, so the job is read.
        """
        newest = await self._follower(job).newest()
        if newest == seen.head.sequence:
            return seen
        return await self.current(job) if 0 < newest <= known_up_to else None

    def _follower(self, job: JobAddress) -> JobFollower:
        return JobFollower(self._connection, self._events, job, timeout=self._timeout)

    async def newest(self, job: JobAddress, kind: e.EventKind) -> StoredEvent | None:
        """Return the job's newest event of this kind."""
        found = await stored_message.newest(self._connection, LOG, subjects.lifecycle(job, kind))
        if found is None:
            return None
        read = wire.read(found.subject, found.sequence, found.data, found.headers)
        return StoredEvent(read.event, found.stored_at) if isinstance(read, Entry) else None
