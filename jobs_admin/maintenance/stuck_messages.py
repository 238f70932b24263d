"""Work messages that are delivered no more, although nobody was told: advisories can be lost.

The server does not say which of its messages these are. What it says: how many deliveries are
unanswered, and up to which message it has delivered. Messages up to there that are neither
answered nor counted are exhausted; which of them, the log tells. As long as there can be none,
nothing more is read.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from jobs_admin.maintenance.exhausted_jobs import Exhausted, stands_for
from jobs_admin.maintenance.gather_limited import abreast
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.work.messages import WorkMessage
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import datetime

    from jobs_admin.actions.guarded_append import GuardedAppender
    from jobs_admin.actions.job_keys import JobKeys
    from jobs_admin.maintenance.exhausted_jobs import Burials
    from jobs_admin.maintenance.worker_liveness import Absences
    from trellis_jobs.jetstream.work.consumer_info import QueueConsumer, QueueConsumers
    from trellis_jobs.jetstream.work.messages import InvalidWorkMessage, WorkMessages
    from trellis_jobs.model.attempts import Attempt
    from trellis_jobs.model.job_status import JobStatus
    from trellis_jobs.model.keys.state import KeyState

log = logging.getLogger(__name__)

_PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class Watched:
    """A message whose job has not moved: `head` is its newest event, `since` on our own clock."""

    head: int
    since: float


@dataclass(frozen=True, slots=True)
class Suspect:
    """A message that no worker seems to have; without its content, as there may be many."""

    name: str
    sequence: int
    stored_at: datetime
    watched: Watched


def exhausted_for_certain(before: QueueConsumer, there: int, after: QueueConsumer) -> int:
    """At least this many messages of a queue are delivered no more, unless it is very busy.

    `there`: its messages, counted after `before` and before `after` was read. Jobs that are only
    being done make the first difference too small, jobs that are only being added the second, so
    the smaller of them never counts a message that still has its turn. When as many are added as
    are done it may be off by a few; then what was counted is looked at, and found to be well.
    """
    return min(there - each.pending - each.ack_pending for each in (before, after))


def may_be_waiting(status: JobStatus, job_id: str, key: KeyState | None, now: datetime) -> bool:
    """Whether a worker may have a job in its hands that does not run: for later, or for its key."""
    if status.next_attempt_at is not None and status.next_attempt_at > now:
        return True
    return key is not None and key.free == 0 and key.slot_of(job_id) is None


@dataclass(slots=True, kw_only=True)
class StuckMessages:
    verdicts: GuardedAppender
    work: WorkMessages
    consumers: QueueConsumers
    keys: JobKeys
    burials: Burials
    absences: Absences
    monotonic: Callable[[], float]
    _watched: dict[str, Watched] = field(default_factory=dict)

    async def sweep(self) -> None:
        watched: dict[str, Watched] = {}
        for consumer in await self.consumers.with_delivery_limit():
            watched |= await self._look(consumer)
        self._watched = watched

    async def _look(self, consumer: QueueConsumer) -> dict[str, Watched]:
        """Bury what must be exhausted; returns what to keep an eye on.

        The count was taken before the messages were looked up: what was answered meanwhile is
        missing among them, so the count of exhausted ones errs on the low side only.
        """
        there = await self.work.count_jobs(consumer.subject)
        after = await self.consumers.named(consumer.name)
        if after is None or exhausted_for_certain(consumer, there, after) <= 0:
            return {n: w for n, w in self._watched.items() if n.startswith(f"{consumer.name} ")}
        found, suspects = 0, []
        async for page in self._pages(consumer):
            found += len(page)
            judged = await abreast(partial(self._judge, consumer=consumer), page)
            suspects += [suspect for suspect in judged if suspect is not None]
        if len(suspects) <= found - consumer.ack_pending:
            await self._bury_ripe(suspects, consumer)
        return {suspect.name: suspect.watched for suspect in suspects}

    async def _pages(
        self, consumer: QueueConsumer
    ) -> AsyncIterator[list[WorkMessage | InvalidWorkMessage]]:
        """All that were delivered: were some left out, the count would say nothing."""
        after = 0
        while page := await self.work.delivered(consumer, after=after, limit=_PAGE):
            yield page
            after = page[-1].sequence

    async def _judge(
        self, message: WorkMessage | InvalidWorkMessage, consumer: QueueConsumer
    ) -> Suspect | None:
        """None: a worker may have it."""
        latest = None
        if isinstance(message, WorkMessage):
            latest = await self.verdicts.current(message.job)
        if latest is None or not isinstance(message, WorkMessage):
            return self._watch(message, consumer, 0)
        if await self._is_in_hand(message, latest.head.status, consumer):
            return None
        return self._watch(message, consumer, latest.head.sequence)

    async def _is_in_hand(
        self, message: WorkMessage, status: JobStatus, consumer: QueueConsumer
    ) -> bool:
        """Whether a worker may well have the message, and do something about it."""
        if not stands_for(message, status):
            return False
        if status.state is JobState.ACTIVE:
            return not await self._is_abandoned(message, status.owner, consumer)
        try:
            key = await self.keys.key_of(message.job, message.begun.concurrency)
            state = None if key is None else await self.keys.read(key)
        except JobsError:
            return True  # A key that cannot be read may be full.
        return may_be_waiting(status, message.job.job_id, state, consumer.at)

    async def _is_abandoned(
        self, message: WorkMessage, owner: Attempt | None, consumer: QueueConsumer
    ) -> bool:
        if owner is None:
            return False
        return await self.absences.is_lost(message.job, owner.instance, consumer.ack_wait)

    def _watch(
        self, message: WorkMessage | InvalidWorkMessage, consumer: QueueConsumer, head: int
    ) -> Suspect:
        name = f"{consumer.name} {message.sequence} {message.stored_at}"
        known = self._watched.get(name)
        if known is None or known.head != head:
            known = Watched(head, self.monotonic())
        return Suspect(name, message.sequence, message.stored_at, known)

    async def _bury_ripe(self, suspects: list[Suspect], consumer: QueueConsumer) -> None:
        """By then the server would have delivered each as often as it may."""
        patience = (_limit(consumer) + 1) * consumer.ack_wait.total_seconds()
        for suspect in suspects:
            if self.monotonic() - suspect.watched.since >= patience:
                await self._bury(suspect, consumer)

    async def _bury(self, suspect: Suspect, consumer: QueueConsumer) -> None:
        """Unless it is gone, or the queue was made anew and has another message in its place."""
        message = await self.work.at(suspect.sequence)
        if message is None or message.stored_at != suspect.stored_at:
            return
        log.warning(
            "work message %s of consumer %s has used up its deliveries, and no advisory came",
            message.sequence,
            consumer.name,
            extra={"consumer": consumer.name, "sequence": message.sequence},
        )
        exhausted = Exhausted(consumer.name, _limit(consumer), consumer.at)
        await self.burials.bury(message, exhausted)


def _limit(consumer: QueueConsumer) -> int:
    return consumer.delivery_limit or 0
