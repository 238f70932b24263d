"""Finds work messages that reached their delivery limit when the server's advisory was lost.

The server does not report which messages these are. It reports how many deliveries are not
acknowledged, and up to which message it has delivered. Messages up to there that are neither
acknowledged nor counted as pending are exhausted, and the log tells which ones. If the counts show
that there are none, nothing else is read.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from jobs_admin.gather_limited import gather_limited
from jobs_admin.maintenance.exhausted_jobs import DeliveryLimitReached, stands_for
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.work.messages import WorkMessage
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import datetime

    from jobs_admin.actions.guarded_append import GuardedAppender
    from jobs_admin.actions.job_keys import JobKeys
    from jobs_admin.maintenance.exhausted_jobs import ExhaustedJobs
    from jobs_admin.maintenance.worker_liveness import WorkerLiveness
    from trellis_jobs.jetstream.work.consumer_info import QueueConsumer, QueueConsumers
    from trellis_jobs.jetstream.work.messages import InvalidWorkMessage, WorkMessages
    from trellis_jobs.model.attempts import Attempt
    from trellis_jobs.model.job_status import JobStatus
    from trellis_jobs.model.keys.state import KeyState

log = logging.getLogger(__name__)

_PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class Watched:
    """A message whose job has not changed: `head` is its newest event, `since` our own clock."""

    head: int
    since: float


@dataclass(frozen=True, slots=True)
class Suspect:
    """A message that no worker seems to hold; without its content, as there may be many."""

    name: str
    sequence: int
    stored_at: datetime
    watched: Watched


def min_exhausted(before: QueueConsumer, there: int, after: QueueConsumer) -> int:
    """Estimate how many messages of a queue have reached their delivery limit, at least.

    `there` is the number of its messages, counted after `before` and before `after` was read. If
    jobs only end, the first difference is too small; if jobs are only added, the second is. So the
    smaller one never counts a message that is still to be delivered. If both happen, it may be off
    by a few; then the messages are checked and found to be fine.
    """
    return min(there - each.pending - each.ack_pending for each in (before, after))


def may_be_waiting(status: JobStatus, job_id: str, key: KeyState | None, now: datetime) -> bool:
    """Whether a worker may hold the job without running it: for a later try, or for its key."""
    if status.next_attempt_at is not None and status.next_attempt_at > now:
        return True
    return key is not None and key.free == 0 and key.slot_of(job_id) is None


@dataclass(slots=True, kw_only=True)
class StuckMessages:
    appender: GuardedAppender
    work: WorkMessages
    consumers: QueueConsumers
    keys: JobKeys
    exhausted_jobs: ExhaustedJobs
    liveness: WorkerLiveness
    monotonic: Callable[[], float]
    _watched: dict[str, Watched] = field(default_factory=dict)

    async def sweep(self) -> None:
        watched: dict[str, Watched] = {}
        for consumer in await self.consumers.with_delivery_limit():
            watched |= await self._check(consumer)
        self._watched = watched

    async def _check(self, consumer: QueueConsumer) -> dict[str, Watched]:
        """End jobs whose message must be exhausted; return the messages to keep watching.

        The count was taken before the messages are read. Messages acknowledged in the meantime are
        missing from the read, so the number of exhausted ones can only be underestimated.
        """
        there = await self.work.count_jobs(consumer.subject)
        after = await self.consumers.named(consumer.name)
        if after is None or min_exhausted(consumer, there, after) <= 0:
            return {n: w for n, w in self._watched.items() if n.startswith(f"{consumer.name} ")}
        found, suspects = 0, []
        async for page in self._pages(consumer):
            found += len(page)
            judged = await gather_limited(partial(self._classify, consumer=consumer), page)
            suspects += [suspect for suspect in judged if suspect is not None]
        if len(suspects) <= found - consumer.ack_pending:
            await self._end_overdue(suspects, consumer)
        return {suspect.name: suspect.watched for suspect in suspects}

    async def _pages(
        self, consumer: QueueConsumer
    ) -> AsyncIterator[list[WorkMessage | InvalidWorkMessage]]:
        """Yield all delivered messages; the count is meaningless if some are left out."""
        after = 0
        while page := await self.work.delivered(consumer, after=after, limit=_PAGE):
            yield page
            after = page[-1].sequence

    async def _classify(
        self, message: WorkMessage | InvalidWorkMessage, consumer: QueueConsumer
    ) -> Suspect | None:
        """Return None when a worker may hold the message."""
        latest = None
        if isinstance(message, WorkMessage):
            latest = await self.appender.current(message.job)
        if latest is None or not isinstance(message, WorkMessage):
            return self._watch(message, consumer, 0)
        if await self._may_be_held(message, latest.head.status, consumer):
            return None
        return self._watch(message, consumer, latest.head.sequence)

    async def _may_be_held(
        self, message: WorkMessage, status: JobStatus, consumer: QueueConsumer
    ) -> bool:
        """Whether a live worker may hold the message."""
        if not stands_for(message, status):
            return False
        if status.state is JobState.ACTIVE:
            return not await self._is_abandoned(message, status.owner, consumer)
        try:
            key = await self.keys.key_of(message.job, message.begun.concurrency)
            state = None if key is None else await self.keys.read(key)
        except JobsError:
            return True  # The key cannot be read, so it may be full.
        return may_be_waiting(status, message.job.job_id, state, consumer.at)

    async def _is_abandoned(
        self, message: WorkMessage, owner: Attempt | None, consumer: QueueConsumer
    ) -> bool:
        if owner is None:
            return False
        return await self.liveness.is_lost(message.job, owner.instance, consumer.ack_wait)

    def _watch(
        self, message: WorkMessage | InvalidWorkMessage, consumer: QueueConsumer, head: int
    ) -> Suspect:
        name = f"{consumer.name} {message.sequence} {message.stored_at}"
        known = self._watched.get(name)
        if known is None or known.head != head:
            known = Watched(head, self.monotonic())
        return Suspect(name, message.sequence, message.stored_at, known)

    async def _end_overdue(self, suspects: list[Suspect], consumer: QueueConsumer) -> None:
        """End jobs that were watched long enough for the server to use up all deliveries."""
        timeout = (_limit(consumer) + 1) * consumer.ack_wait.total_seconds()
        for suspect in suspects:
            if self.monotonic() - suspect.watched.since >= timeout:
                await self._end(suspect, consumer)

    async def _end(self, suspect: Suspect, consumer: QueueConsumer) -> None:
        """End the job, unless the message is gone or a recreated queue reused its sequence."""
        message = await self.work.at(suspect.sequence)
        if message is None or message.stored_at != suspect.stored_at:
            return
        log.warning(
            "work message %s of consumer %s reached its delivery limit, and no advisory arrived",
            message.sequence,
            consumer.name,
            extra={"consumer": consumer.name, "sequence": message.sequence},
        )
        exhausted = DeliveryLimitReached(consumer.name, _limit(consumer), consumer.at)
        await self.exhausted_jobs.mark_dead(message, exhausted)


def _limit(consumer: QueueConsumer) -> int:
    return consumer.delivery_limit or 0
