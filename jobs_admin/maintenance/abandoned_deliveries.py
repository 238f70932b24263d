"""Replaces work messages that were delivered to a worker that died before it started their jobs.

The server redelivers them when their lease ends, which may be hours later. It does not tell to whom
it delivered a message, so this looks at every delivered message of the dead worker's queues: a job
that has not started, and that no living worker reports, is enqueued again, and the message of a job
that has ended is deleted. A mistake is harmless: the log refuses the second start of a job
(design D2).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Final

from jobs_admin.gather_limited import gather_limited
from trellis_jobs.jetstream.work.messages import InvalidWorkMessage, WorkMessage
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from datetime import datetime

    from jobs_admin.actions.guarded_append import GuardedAppender
    from jobs_admin.workers.registry import WorkerRegistry
    from trellis_jobs.jetstream.work.consumer_info import QueueConsumer, QueueConsumers
    from trellis_jobs.jetstream.work.messages import WorkMessages
    from trellis_jobs.model.job_status import JobStatus
    from trellis_jobs.model.worker_record import Verdict, WorkerProfile

log = logging.getLogger(__name__)

_PAGE: Final = 100


class Decision(Enum):
    """What to do with a delivered message that no living worker reports."""

    KEEP = auto()
    REPLACE = auto()
    # Its job has ended, and the worker died before it acknowledged the message.
    DELETE = auto()


def decide(message: WorkMessage, status: JobStatus, died_before: datetime) -> Decision:
    """A message that is newer than the verdict, and a job that was to wait until after it, were not
    delivered to the dead worker.
    """
    if message.stored_at >= died_before:
        return Decision.KEEP
    if status.is_over or status.run != message.run:
        return Decision.DELETE
    is_due = status.next_attempt_at is None or status.next_attempt_at < died_before
    return Decision.REPLACE if status.state is not JobState.ACTIVE and is_due else Decision.KEEP


@dataclass(frozen=True, slots=True, kw_only=True)
class AbandonedDeliveries:
    registry: WorkerRegistry
    consumers: QueueConsumers
    work: WorkMessages
    appender: GuardedAppender

    async def are_possible(self, profile: WorkerProfile) -> bool:
        """Whether some queue's lease is so long that its messages are worth replacing."""
        return bool(await self._slow_consumers(profile))

    async def replace(self, profile: WorkerProfile, verdict: Verdict) -> None:
        for consumer in await self._slow_consumers(profile):
            after, replaced = 0, 0
            while page := await self.work.delivered(consumer, after=after, limit=_PAGE):
                after = page[-1].sequence
                replace = partial(self._replace, died_before=verdict.at)
                replaced += sum(await gather_limited(replace, page))
            if replaced:
                log.warning(
                    "enqueued %s jobs of consumer %s again that were delivered to the dead worker "
                    "%s and not started",
                    replaced,
                    consumer.name,
                    profile.instance,
                    extra={"consumer": consumer.name, "jobs": replaced},
                )

    async def _slow_consumers(self, profile: WorkerProfile) -> list[QueueConsumer]:
        """Consumers with a lease longer than a worker may be silent.

        Those with a limit of unacknowledged messages are shared with other runtimes, which do not
        report their jobs.
        """
        found = [await self.consumers.of(profile.service, q.job_type) for q in profile.queues]
        return [
            consumer
            for consumer in found
            if consumer is not None
            and consumer.ack_wait > profile.dead_after
            and consumer.config.get("max_ack_pending") == -1
        ]

    async def _replace(
        self, message: WorkMessage | InvalidWorkMessage, died_before: datetime
    ) -> bool:
        """Return whether the job was enqueued again."""
        if isinstance(message, InvalidWorkMessage) or self._is_reported(message):
            return False
        latest = await self.appender.current(message.job)
        if latest is None:
            return False
        decision = decide(message, latest.head.status, died_before)
        if decision is Decision.KEEP:
            return False
        await self.work.delete(message)
        if decision is Decision.DELETE:
            return False
        return await self.work.put_back(message.job, message.run)

    def _is_reported(self, message: WorkMessage) -> bool:
        living = (known.record for known in self.registry.all() if not known.record.has_ended)
        return any(record.has_job(message.job) for record in living)
