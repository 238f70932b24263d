"""The event log of all jobs: guarded appends, reads that are new enough, and histories."""

from __future__ import annotations

import asyncio
import logging
import secrets
from itertools import count
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.topology import LOG
from trellis_jobs.errors import InfrastructureMissing, JobsError, NotConfirmed, RequestRefused
from trellis_jobs.infrastructure_errors import StreamFull
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import Connection, ConnectionLost, NoResponders
from trellis_jobs.jetstream.log.atomic_batch import AtomicBatch
from trellis_jobs.jetstream.log.fast_batch import BulkAppender
from trellis_jobs.jetstream.log.full_stream import SpaceWatch
from trellis_jobs.jetstream.log.history import Histories, require_sequence
from trellis_jobs.jetstream.log.prepared_event import PreparedEvent, Refused
from trellis_jobs.jetstream.log.reads import (
    ACK_TIMEOUT,
    FAILOVER_TIMEOUT,
    FOREVER,
    RETRY_DELAYS,
    Latest,
    LogReads,
    retry_delay,
    sequence_of,
)
from trellis_jobs.model import subjects
from trellis_jobs.model.job_status import Head, JobStatus
from trellis_jobs.model.reducer import Illegal, advance, begin
from trellis_jobs.model.values import Value
from trellis_jobs.wire import events as wire
from trellis_jobs.wire import headers as h

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from trellis_jobs.contract.features import Features
    from trellis_jobs.jetstream.log.history import HistorySlice
    from trellis_jobs.model.events import Begun, Event, EventKind
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.job import Entry

__all__ = ["FOREVER", "EventLog", "Latest", "Lost", "Refused"]

log = logging.getLogger(__name__)

# Give up a batch that the server keeps refusing after this time. The server drops open batches
# after 10 s, so this process sends no batch until then.
_BATCH_RETRY_TIMEOUT: Final = 2.0
_BATCH_COOLDOWN: Final = 10.0


class Lost(Value, frozen=True):
    """The event is no longer legal after the job's newest one; `head` is None for a purged job."""

    head: Head | None
    reason: str


class EventLog:
    def __init__(
        self, connection: Connection, features: Features, histories: Histories | None = None
    ) -> None:
        self._connection = connection
        self._histories = histories or Histories(connection)
        self._reads = LogReads(connection, self._histories)
        self.features = features
        self._guards = features.guarded_appends
        self._loop = asyncio.get_running_loop()
        self._writer = secrets.token_hex(8)
        self._event_numbers = count(1)
        self._space = SpaceWatch()
        self._no_batches_until = 0.0
        self._bulk_appender = BulkAppender(connection, features, self._publish_with_retry)

    async def try_append(
        self, head: Head | None, event: Event, *, timeout: float = FOREVER
    ) -> Head | Refused:
        """Append if `head` is still the job's newest event, or with None if the job does not exist.

        Raises StreamFull at once when the log is full; without a timeout it waits for space.

        Safe against a crash or lost reply at any point: the event is sent again with the same guard
        and id, and a refusal counts only if the log does not hold the event already.
        """
        status = _status_after(head, event)
        answer = await self._confirm(self._prepare(head, event, status), timeout)
        if isinstance(answer, Refused):
            return answer
        return Head(answer, status.recorded_at(answer))

    async def append_first(
        self, event: Begun, *, timeout: float, started_at: float | None = None
    ) -> int | Refused:
        """Append the first event of a job, as try_append() does; returns its sequence.

        `started_at`: when the timeout began, by the clock of the loop.
        """
        return await self._confirm(self._prepare(None, event, begin(event)), timeout, started_at)

    async def try_append_together(
        self, steps: Sequence[tuple[Head | None, Event]], *, timeout: float = FOREVER
    ) -> list[Head] | Refused | None:
        """Append the events of several jobs, each as try_append() does: all of them or none.

        Returns None when the server or the stream does not support batches, or when the stream has
        too many open ones. A refusal is that of the first guard that failed, and does not name the
        job. A batch holds one event per job, because the server does not check a guard against
        earlier events of the same batch.
        """
        if not self.features.atomic_batches or self._loop.time() < self._no_batches_until:
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
            last = await self._confirm_batch(batch, timeout)
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
        self, events: Iterable[Begun], *, timeout: float
    ) -> list[int | Refused | JobsError]:
        """Append the first events of many jobs, each as try_append() does.

        Each event is at the returned sequence or after it. All events share the `timeout`, which
        restarts with every reply, so that they wait through an outage together.
        """
        prepared = (self._prepare(None, event, begin(event)) for event in events)
        return await self._bulk_appender.append(prepared, timeout)

    async def append(
        self, head: Head, event: Event, *, timeout: float = FOREVER, shared: bool = False
    ) -> Head | Lost:
        """Append after any events that come in between, if the reducer accepts it there."""
        while True:
            answer = await self.try_append(head, event, timeout=timeout)
            if isinstance(answer, Head):
                return answer
            newest = await self.head_since(event.job, answer, shared=shared)
            if newest is None:
                return Lost(None, "the job is not in the log")
            verdict = advance(newest.status, event)
            if isinstance(verdict, Illegal):
                return Lost(newest, verdict.reason)
            head = newest

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

    async def head_since(
        self, job: JobAddress, refusal: Refused, *, shared: bool = False
    ) -> Head | None:
        """Returns the head after a refusal, or None: the leader reports sequence 0 for no job."""
        if refusal.last_sequence == 0:
            return None
        return await self.head(job, at_least=refusal.last_sequence, shared=shared)

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

    async def _confirm(
        self, prepared: PreparedEvent, timeout: float, started_at: float | None = None
    ) -> int | Refused:
        """Publish until the server stores the event (returns its sequence) or refuses it.

        The first attempt nearly always succeeds, so only the retries need a timer.
        """
        now = self._loop.time()
        started_at = now if started_at is None else started_at
        if self._guards:
            try:
                remaining = started_at + timeout - now
                answer = await prepared.publish_once(self._connection, min(ACK_TIMEOUT, remaining))
            except (NoResponders, ConnectionLost):
                answer = None
            except StreamFull:
                if timeout != FOREVER:
                    raise
                answer = None
            if isinstance(answer, int):
                return answer
            if answer is not None:
                return answer
        return await self._publish_with_retry(prepared, timeout, started_at)

    async def _confirm_batch(self, batch: AtomicBatch, timeout: float) -> int | Refused | None:
        """Returns None when the server keeps refusing the batch for another reason than a guard.

        A stream allows 50 open batches. A client that leaves that many open, by mistake or on
        purpose, must not block callers that can do without a batch.
        """
        started_at, refusals = self._loop.time(), 0
        while self._loop.time() < started_at + _BATCH_RETRY_TIMEOUT:
            try:
                answer = await batch.publish_once(self._connection, min(ACK_TIMEOUT, timeout))
            except (NoResponders, ConnectionLost):
                return await self._publish_with_retry(batch, timeout, started_at)
            if isinstance(answer, int):
                return answer
            if answer is not None and not await self._is_wrong_refusal(batch, answer):
                return answer
            await asyncio.sleep(retry_delay(refusals))
            refusals += 1
        self._no_batches_until = self._loop.time() + _BATCH_COOLDOWN
        return None

    async def _publish_with_retry(
        self, prepared: PreparedEvent | AtomicBatch, timeout: float, started_at: float
    ) -> int | Refused:
        """Publish again; a refusal counts only if the log does not hold the event already."""
        if timeout == FOREVER:
            return await self._publish_until_stored(prepared, FOREVER)
        try:
            async with asyncio.timeout_at(started_at + timeout):
                return await self._publish_until_stored(prepared, FAILOVER_TIMEOUT)
        except TimeoutError:
            raise NotConfirmed(prepared.subject, timeout, prepared.job.job_id) from None

    async def _publish_until_stored(
        self, prepared: PreparedEvent | AtomicBatch, missing_timeout: float
    ) -> int | Refused:
        attempts, missing_since = 0, FOREVER
        while True:
            await self._connection.wait_until_connected()
            try:
                answer = await self._publish_or_find_copy(prepared)
                if answer is not None:
                    self._space.space_is_back()
                    return answer
            except NoResponders:
                missing_since = self._missing_since(missing_since, missing_timeout)
            except StreamFull as full:
                if missing_timeout != FOREVER:
                    return await self._find_stored_copy(prepared, full)
                await self._space.wait(full)
            except ConnectionLost as error:
                if self._connection.is_closed:
                    raise NotConfirmed(prepared.subject, None, prepared.job.job_id) from error
            await asyncio.sleep(retry_delay(attempts))
            attempts += 1

    def _missing_since(self, before: float, missing_timeout: float) -> float:
        now = self._loop.time()
        started_at = min(before, now)
        if now - started_at > missing_timeout:
            raise InfrastructureMissing(f"stream {LOG}")
        return started_at

    async def _find_stored_copy(
        self, prepared: PreparedEvent | AtomicBatch, full: StreamFull
    ) -> int:
        """Find an earlier copy whose reply was lost; raises `full` if the log has none."""
        for pause in RETRY_DELAYS:
            for offset, part in enumerate(reversed(prepared.parts)):
                sequence = await self._reads.own_copy(part)
                if sequence is not None:
                    return sequence + offset
            await asyncio.sleep(pause)
        raise full

    async def _publish_or_find_copy(
        self, prepared: PreparedEvent | AtomicBatch
    ) -> int | Refused | None:
        """If a repeated publish is refused because of its own first copy, return that copy.

        Returns None to publish again, also while no read is as new as the refusal.
        """
        moved = None
        if not self._guards:
            moved = await self._moved_past(prepared)
        answer = moved or await prepared.publish_once(self._connection, ACK_TIMEOUT)
        if not isinstance(answer, Refused):
            return answer
        if await self._is_wrong_refusal(prepared, answer):
            return None
        try:
            return await self._find_own_copy(prepared, answer)
        except NotConfirmed:
            if self._connection.is_closed:
                raise
            return None

    async def _moved_past(self, prepared: PreparedEvent | AtomicBatch) -> Refused | None:
        """Read before publishing, for servers that cannot guard (2.10) or guard wrongly."""
        for part in prepared.parts:
            newest = await self._reads.newest(subjects.history(part.job))
            last = 0 if newest is None else sequence_of(newest)
            if last != part.guard:
                return Refused(last)
        return None

    async def _is_wrong_refusal(
        self, prepared: PreparedEvent | AtomicBatch, refusal: Refused
    ) -> bool:
        """2.12 sometimes compares one guard of a batch with another job (nats-server #8376).

        A sequence belongs to one job, so a correct refusal never names a sequence of the guards;
        and when it names 0, a job of the batch must have been purged.
        """
        if isinstance(prepared, PreparedEvent):
            return False
        guards = {part.guard for part in prepared.parts}
        if refusal.last_sequence or guards == {0}:
            return refusal.last_sequence in guards
        return await self._moved_past(prepared) is None

    async def _find_own_copy(
        self, prepared: PreparedEvent | AtomicBatch, refusal: Refused
    ) -> int | Refused:
        """Returns the sequence of the last event if the log holds any of them, and so all of them.

        The refusal may concern any of them, so it counts once one search went far enough.
        """
        searches = (self._reads.find(part, refusal.last_sequence) for part in prepared.parts)
        found = await asyncio.gather(*searches, return_exceptions=True)
        for offset, sequence in enumerate(reversed(found)):
            if isinstance(sequence, int):
                return sequence + offset
        for result in found:
            if isinstance(result, BaseException) and None not in found:
                raise result
        return refusal


def _status_after(head: Head | None, event: Event) -> JobStatus:
    status = advance(head.status if head else None, event)
    if isinstance(status, Illegal):
        raise ValueError(f"the reducer rejects the event to append: {status.reason}")
    return status
