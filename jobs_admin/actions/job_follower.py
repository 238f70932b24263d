"""Follows one job that may change at any time: reads it fully once, then only newer events.

A handler may append a note every 100 ms (design D23). Reading a long history from its beginning
after each refused append would always be too late.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.api.errors import JobContention
from trellis_jobs.contract.topology import LOG
from trellis_jobs.jetstream.client import stored_message
from trellis_jobs.jetstream.log.event_log import Latest
from trellis_jobs.jetstream.log.history import require_sequence
from trellis_jobs.model import subjects
from trellis_jobs.model.events import Created, Scheduled
from trellis_jobs.model.job import fold
from trellis_jobs.model.job_status import Head

if TYPE_CHECKING:
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.log.event_log import EventLog, Refused
    from trellis_jobs.jetstream.log.history import HistorySlice
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.job import Job

FOLLOW_TIMEOUT: Final = 5.0


@dataclass(frozen=True, slots=True)
class Known:
    """A job up to a sequence, that of its newest message, whether an event or not."""

    job: Job
    up_to: int

    @property
    def head(self) -> Head:
        return Head(self.up_to, self.job.status)

    @property
    def latest(self) -> Latest:
        return Latest(self.head, self.job.context)


class JobFollower:
    """`timeout`: how many seconds to follow a job after it was first read.

    Reads raise NotConfirmed when a replica that is too far behind answers them.
    """

    def __init__(
        self,
        connection: Connection,
        events: EventLog,
        job: JobAddress,
        *,
        timeout: float = FOLLOW_TIMEOUT,
    ) -> None:
        self._connection = connection
        self._events = events
        self._address = job
        self._timeout = timeout
        self._known: Known | None = None
        self._began = 0.0

    async def read(self) -> Known | None:
        """Read the job up to what the stream leader has; None when it is not in the log."""
        newest = await self.newest()
        return None if newest == 0 else await self._whole(newest)

    async def newest(self) -> int:
        """The sequence of the job's newest message; 0 when it has none."""
        history = subjects.history(self._address)
        found = await stored_message.newest(self._connection, LOG, history)
        return 0 if found is None else found.sequence

    async def after(self, refusal: Refused) -> Known | None:
        """Read what is new after a refused append; None when the job is not in the log.

        Raises JobContention when appends have been refused for longer than the timeout.
        """
        newest, known = refusal.last_sequence, self._known
        if newest == 0:
            return None
        if known is None or newest <= known.up_to:
            return await self._whole(newest)
        if time.monotonic() - self._began >= self._timeout:
            raise JobContention(self._address.job_id, self._timeout)
        tail = await self._stretch(known.up_to, newest)
        if any(isinstance(entry.event, Created | Scheduled) for entry in tail.entries):
            return await self._whole(newest)  # its id may be used again, after a purge
        self._known = Known(fold(tail.entries, known.job) or known.job, tail.newest)
        return self._known

    async def _whole(self, at_least: int) -> Known | None:
        """Read all events, because other runtimes may write to this queue too (design D25)."""
        read = await self._stretch(0, at_least)
        job = fold(read.entries)
        self._known = None if job is None else Known(job, read.newest)
        self._began = time.monotonic()
        return self._known

    async def _stretch(self, after: int, at_least: int) -> HistorySlice:
        read = await self._events.history_slice(self._address, after=after, at_least=at_least)
        require_sequence(at_least, read.newest, self._address)
        return read
