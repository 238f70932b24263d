"""The event log of all jobs: guarded appends, reads that are new enough, and histories."""

from __future__ import annotations

import secrets
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from trellis_jobs.errors import JobsError, RequestRefused
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.fast_batch import BulkAppender
from trellis_jobs.jetstream.client.pub_ack import Refused
from trellis_jobs.jetstream.client.timeouts import FOREVER
from trellis_jobs.jetstream.log.atomic_batch import AtomicBatch
from trellis_jobs.jetstream.log.decide_again import append_planned, decide_again
from trellis_jobs.jetstream.log.event_publisher import EventPublisher
from trellis_jobs.jetstream.log.history import Histories, require_sequence
from trellis_jobs.jetstream.log.prepared_event import PreparedEvent
from trellis_jobs.jetstream.log.reads import Latest, LogReads
from trellis_jobs.model import subjects
from trellis_jobs.model.job_status import Head, JobStatus
from trellis_jobs.model.reducer import Illegal, advance, begin
from trellis_jobs.model.values import Value
from trellis_jobs.wire import events as wire
from trellis_jobs.wire import headers as h

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from trellis_jobs.contract.features import Features
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.log.decide_again import Appended
    from trellis_jobs.jetstream.log.history import HistorySlice
    from trellis_jobs.model.alarms import EventWindow
    from trellis_jobs.model.events import Described, Event, EventKind
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.job import Entry

__all__ = ["FOREVER", "EventLog", "Latest", "Lost", "Refused"]


class Lost(Value, frozen=True):
    """The event is no longer legal after the job's newest one; `head` is None for a purged job."""

    head: Head | None
    reason: str


class EventLog:
    def __init__(
        self, connection: Connection, features: Features, histories: Histories | None = None
    ) -> None:
        self._histories = histories or Histories(connection)
        self._reads = LogReads(connection, self._histories)
        self.features = features
        self._guards = features.guarded_appends
        self._writer = secrets.token_hex(8)
        self._event_numbers = count(1)
        self._publisher = EventPublisher(connection, self._reads, guards=self._guards)
        self._bulk_appender: BulkAppender[PreparedEvent] = BulkAppender(
            connection, features, self._publisher.publish_with_retry
        )

    async def try_append(
        self, head: Head | None, event: Event, *, timeout: float = FOREVER
    ) -> Head | Refused:
        """Append if `head` is still the job's newest event, or with None if the job does not exist.

        Raises StreamFull at once when the log is full; without a timeout it waits for space.

        Safe against a crash or lost reply at any point: the event is sent again with the same guard
        and id, and a refusal counts only if the log does not hold the event already.
        """
        status = _status_after(head, event)
        answer = await self._publisher.publish(self._prepare(head, event, status), timeout)
        if isinstance(answer, Refused):
            return answer
        return Head(answer, status.recorded_at(answer))

    async def append_first(
        self, event: Described, *, timeout: float, started_at: float | None = None
    ) -> int | Refused:
        """Append the first event of a job, as try_append() does; returns its sequence.

        `started_at`: when the timeout began, by the clock of the loop.
        """
        prepared = self._prepare(None, event, begin(event))
        return await self._publisher.publish(prepared, timeout, started_at)

    async def try_append_together(
        self, steps: Sequence[tuple[Head | None, Event]], *, timeout: float = FOREVER
    ) -> list[Head] | Refused | None:
        """Append the events of several jobs, each as try_append() does: all of them or none.

        Returns None when the server or the stream does not support batches, or when the stream has
        too many open ones. A refusal is that of the first guard that failed, and does not name the
        job. A batch holds one event per job, because the server does not check a guard against
        earlier events of the same batch.
        """
        if not self.features.atomic_batches or not self._publisher.accepts_batches:
            return None
        if not steps or len({event.job for _, event in steps}) < len(steps):
            raise ValueError("a batch needs at least one event, and at most one event per job")
        statuses = [_status_after(head, event) for head, event in steps]
        parts = [
            self._prepare(head, event, status)
            for (head, event), status in zip(steps, statuses, strict=True)
        ]
        batch = AtomicBatch.from_events(parts)
        try:
            last = await self._publisher.publish_batch(batch, timeout)
        except RequestRefused as refusal:
            if refusal.code == api.BATCHES_NOT_ALLOWED:
                return None
            raise
        if last is None or isinstance(last, Refused):
            return last
        sequences = batch.sequences(last)
        return [
            Head(sequences[part.event_id], status.recorded_at(sequences[part.event_id]))
            for part, status in zip(parts, statuses, strict=True)
        ]

    async def append_first_many(
        self, events: Iterable[Described], *, timeout: float, window: EventWindow | None = None
    ) -> list[int | Refused | JobsError]:
        """Append the first events of many jobs, each as try_append() does, within the window.

        Each event is at the returned sequence or after it. All events share the `timeout`, which
        restarts with every reply, so that they wait through an outage together.
        """
        prepared = (self._prepare(None, event, begin(event)) for event in events)
        return await self._bulk_appender.append(prepared, timeout, window)

    async def append(
        self, head: Head, event: Event, *, timeout: float = FOREVER, shared: bool = False
    ) -> Head | Lost:
        """Append after any events that come in between, if the reducer accepts it there."""
        answer = await self.try_append(head, event, timeout=timeout)
        if not isinstance(answer, Refused):
            return answer

        async def append_if_legal(newest: Latest) -> Head | Lost | Refused:
            verdict = advance(newest.head.status, event)
            if isinstance(verdict, Illegal):
                return Lost(newest.head, verdict.reason)
            return await self.try_append(newest.head, event, timeout=timeout)

        read = partial(self.latest_since, event.job, shared=shared)
        decided: Head | Lost | None = await decide_again(answer, read, append_if_legal)
        return Lost(None, "the job is not in the log") if decided is None else decided

    async def append_planned(
        self,
        job: JobAddress,
        known: Latest,
        plan: Callable[[Latest], Event | None],
        *,
        timeout: float,
        shared: bool = False,
    ) -> Appended[Latest] | Latest | None:
        """Append what `plan` returns; plan again whenever the job has changed (decide_again.py)."""
        return await append_planned(
            known,
            plan,
            append=partial(self.try_append, timeout=timeout),
            read=partial(self.latest_since, job, shared=shared),
        )

    async def head(
        self, job: JobAddress, *, at_least: int = 0, shared: bool = False
    ) -> Head | None:
        """Returns the job's newest event and status; `at_least` and `shared` as in latest()."""
        latest = await self.latest(job, at_least=at_least, shared=shared)
        return None if latest is None else latest.head

    async def latest(
        self, job: JobAddress, *, at_least: int = 0, shared: bool = False
    ) -> Latest | None:
        """Reads the job's newest event, or its whole history if that event is not enough.

        A read older than `at_least` came from a lagging replica, and is repeated. On a `shared`
        queue only the whole history gives the job's status (design D25).
        """
        return await self._reads.latest(job, at_least=at_least, shared=shared)

    async def latest_from_leader(self, job: JobAddress, *, shared: bool = False) -> Latest | None:
        """Like latest(), but asks the stream leader. Use it after a replica found nothing.

        Returns None when the job does not exist.
        """
        newest = await self._reads.newest_sequence_from_leader(job) if self._guards else 0
        return await self.latest(job, at_least=newest, shared=shared) if newest else None

    async def latest_since(
        self, job: JobAddress, refusal: Refused, *, shared: bool = False
    ) -> Latest | None:
        """Like latest(), after a refusal. Returns None if the leader has no event of the job."""
        if refusal.last_sequence == 0:
            return None
        return await self.latest(job, at_least=refusal.last_sequence, shared=shared)

    async def last(self, job: JobAddress, kind: EventKind) -> Entry | None:
        """Returns the job's newest event of one kind."""
        return await self._reads.last(job, kind)

    async def history(self, job: JobAddress, *, at_least: int = 0) -> list[Entry]:
        """Returns every event up to `at_least` or later, or none if the job was purged."""
        read = await self.history_slice(job, at_least=at_least)
        if read.newest:
            require_sequence(at_least, read.newest, job)
        return read.entries

    async def history_slice(
        self, job: JobAddress, *, after: int = 0, at_least: int = 0
    ) -> HistorySlice:
        """Returns the events after a sequence, and the newest sequence that was read."""
        return await self._histories.history_slice(job, after=after, at_least=at_least)

    def follow(self, job: JobAddress) -> AsyncIterator[Entry]:
        """Yields the job's events from the first one on, and then new ones as they are stored."""
        return self._histories.follow(subjects.history(job))

    def _prepare(self, head: Head | None, event: Event, status: JobStatus) -> PreparedEvent:
        job, guard = event.job, head.sequence if head else 0
        event_id = f"{self._writer}-{next(self._event_numbers)}"
        if self._guards:
            block = h.guarded_block(event.context, event_id, guard, subjects.history(job))
        else:
            block = h.block(h.of_event(event.context, event_id) | {h.MESSAGE_ID: event_id})
        data = wire.encode(event, status, head.status.state if head else None)
        return PreparedEvent(subjects.lifecycle(job, event.kind), data, block, event_id, job, guard)


def _status_after(head: Head | None, event: Event) -> JobStatus:
    status = advance(head.status if head else None, event)
    if isinstance(status, Illegal):
        raise ValueError(f"the reducer rejects the event to append: {status.reason}")
    return status
