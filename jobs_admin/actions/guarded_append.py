"""Events that nobody asked for: decided where the job stands, and only if it stands there.

What the projection says is tried as it is. If the job has moved on, the server refuses, and the
log itself is asked: so a projection that lags behind decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs_admin.actions.job_follower import PATIENCE, JobFollower
from trellis_jobs.contract.topology import LOG
from trellis_jobs.jetstream.client import stored_message
from trellis_jobs.jetstream.log.event_log import Latest, Refused
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.model.job import Entry
from trellis_jobs.wire import log as wire

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.log.event_log import EventLog
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.job_status import Head


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was appended, and where the job stood before."""

    head: Head
    before: Latest


class GuardedAppender:
    def __init__(
        self, connection: Connection, events: EventLog, *, patience: float = PATIENCE
    ) -> None:
        self._connection = connection
        self._events = events
        self._patience = patience

    async def append(
        self, job: JobAddress, seen: Latest, plan: Callable[[Latest], e.Event | None]
    ) -> Verdict | None:
        """What the plan makes of the job, decided again whenever it has moved; None: nothing.

        Raises JobKeepsMoving when it moves so often that nothing can be appended.
        """
        chase = self._chase(job)
        while (event := plan(seen)) is not None:
            answer = await self._events.try_append(seen.head, event, timeout=self._patience)
            if not isinstance(answer, Refused):
                return Verdict(answer, seen)
            moved = await chase.after(answer)
            if moved is None:
                return None
            seen = moved.latest
        return None

    async def current(self, job: JobAddress) -> Latest | None:
        """Where the job stands, as the stream's leader has it; None when it is not in the log."""
        known = await self._chase(job).read()
        return None if known is None else known.latest

    async def unmoved(self, job: JobAddress, seen: Latest, known_up_to: int) -> Latest | None:
        """Where a job stands that has no event newer than `seen`; None when it has moved.

        `known_up_to`: up to there the projection knew the log. A newer message is an event that it
        has not read yet. An older one that it does not count is not an event, so the job is read.
        """
        newest = await self._chase(job).newest()
        if newest == seen.head.sequence:
            return seen
        return await self.current(job) if 0 < newest <= known_up_to else None

    def _chase(self, job: JobAddress) -> JobFollower:
        return JobFollower(self._connection, self._events, job, patience=self._patience)

    async def started(self, job: JobAddress) -> tuple[e.Started, datetime] | None:
        """The job's newest `started`, and when the server stored it."""
        subject = subjects.lifecycle(job, e.EventKind.STARTED)
        newest = await stored_message.newest(self._connection, LOG, subject)
        if newest is None:
            return None
        read = wire.read(newest.subject, newest.sequence, newest.data, newest.headers)
        if not isinstance(read, Entry) or not isinstance(read.event, e.Started):
            return None
        return read.event, newest.stored_at


def said_of(job: JobAddress, latest: Latest, at: datetime) -> e.EventFields:
    return {
        "job": job,
        "context": latest.context,
        "at": at,
        "tries": latest.head.status.tries,
    }
