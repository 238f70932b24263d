"""Publishes prepared events until the server has stored or refused them.

An event whose reply was lost is sent again with the same guard and id. A refusal counts only if the
log does not hold the event already.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.topology import LOG
from trellis_jobs.errors import NotConfirmed, StreamFull, StreamMissing
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import ConnectionLost, NoResponders
from trellis_jobs.jetstream.client.pub_ack import Refused, read_pub_ack
from trellis_jobs.jetstream.client.timeouts import (
    ACK_TIMEOUT,
    FAILOVER_TIMEOUT,
    FOREVER,
    RETRY_DELAYS,
    retry_delay,
)
from trellis_jobs.jetstream.log.prepared_event import PreparedEvent
from trellis_jobs.jetstream.log.space_watch import SpaceWatch
from trellis_jobs.model import subjects

if TYPE_CHECKING:
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.log.atomic_batch import AtomicBatch
    from trellis_jobs.jetstream.log.reads import LogReads

# Give up a batch that the server keeps refusing after this time. The server drops open batches
# after 10 s, so this process sends no batch until then.
_BATCH_RETRY_TIMEOUT: Final = 2.0
_BATCH_COOLDOWN: Final = 10.0


class EventPublisher:
    """`guards`: whether the server checks guards. Otherwise the job is read before each publish."""

    def __init__(self, connection: Connection, reads: LogReads, *, guards: bool) -> None:
        self._connection = connection
        self._reads = reads
        self._guards = guards
        self._loop = asyncio.get_running_loop()
        self._space = SpaceWatch()
        self._no_batches_until = 0.0

    @property
    def accepts_batches(self) -> bool:
        """False for a while after the server refused a batch for another reason than a guard."""
        return self._loop.time() >= self._no_batches_until

    async def publish(
        self, prepared: PreparedEvent, timeout: float, started_at: float | None = None
    ) -> int | Refused:
        """Publish until the server stores the event (returns its sequence) or refuses it.

        The first attempt nearly always succeeds, so only the retries need a timer.
        """
        now = self._loop.time()
        started_at = now if started_at is None else started_at
        if self._guards:
            try:
                remaining = min(ACK_TIMEOUT, started_at + timeout - now)
                reply = await prepared.send(self._connection, remaining)
                answer = read_pub_ack(prepared.subject, reply)
            except (NoResponders, ConnectionLost):
                answer = None
            except StreamFull:
                if timeout != FOREVER:
                    raise
                answer = None
            if answer is not None:
                return answer
        return await self.publish_with_retry(prepared, timeout, started_at)

    async def publish_batch(self, batch: AtomicBatch, timeout: float) -> int | Refused | None:
        """Returns None when the server keeps refusing the batch for another reason than a guard.

        A stream allows 50 open batches. A client that leaves that many open, by mistake or on
        purpose, must not block callers that can do without a batch.
        """
        started_at, refusals = self._loop.time(), 0
        while self._loop.time() < started_at + _BATCH_RETRY_TIMEOUT:
            try:
                answer = await batch.publish_once(self._connection, min(ACK_TIMEOUT, timeout))
            except (NoResponders, ConnectionLost):
                return await self.publish_with_retry(batch, timeout, started_at)
            if isinstance(answer, int):
                return answer
            if answer is not None and not await self._is_wrong_refusal(batch, answer):
                return answer
            await asyncio.sleep(retry_delay(refusals))
            refusals += 1
        self._no_batches_until = self._loop.time() + _BATCH_COOLDOWN
        return None

    async def publish_with_retry(
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
            raise StreamMissing(LOG)
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
            last = 0 if newest is None else api.sequence_of(newest)
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
