"""Marks jobs dead whose work message has reached its delivery limit, and deletes the message."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trellis_jobs.jetstream.work.messages import InvalidWorkMessage, WorkMessage
from trellis_jobs.model import events as e
from trellis_jobs.model.job_errors import Interruption, JobError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from jobs_admin.actions.guarded_append import GuardedAppender
    from jobs_admin.actions.job_keys import JobKeys
    from trellis_jobs.jetstream.log.event_log import Latest
    from trellis_jobs.jetstream.work.messages import WorkMessages
    from trellis_jobs.model.attempts import Attempt
    from trellis_jobs.model.job_status import JobStatus

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeliveryLimitReached:
    """`at` is the server's time; a job that was started after it is not affected."""

    consumer: str
    deliveries: int
    at: datetime


def stands_for(message: WorkMessage, status: JobStatus) -> bool:
    """Whether a worker that receives this message would still run the job."""
    if status.is_over or status.run != message.run:
        return False
    runs_from = status.owner.work if status.owner is not None else None
    return runs_from in (None, message.work)


def plan_death(
    message: WorkMessage, exhausted: DeliveryLimitReached, latest: Latest, now: datetime
) -> e.Dead | None:
    """End the attempt that owns the job, if there is one, because it is lost."""
    status = latest.head.status
    if not stands_for(message, status):
        return None
    last = f", the last time to worker {status.owner.instance}" if status.owner else ""
    error = JobError(
        type=Interruption.DELIVERIES_EXHAUSTED,
        message=(
            f"consumer {exhausted.consumer} delivered the job {exhausted.deliveries} times"
            f"{last}, and no worker finished it"
        ),
        tries=status.tries,
        at=now,
    )
    return e.Dead(**latest.event_fields(message.job, now), attempt=status.owner, error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExhaustedJobs:
    appender: GuardedAppender
    work: WorkMessages
    keys: JobKeys
    now: Callable[[], datetime]

    async def mark_dead(
        self, message: WorkMessage | InvalidWorkMessage, exhausted: DeliveryLimitReached
    ) -> None:
        """End the job, then remove it from its key, then delete the message.

        Each step may be repeated, so a crash in between is harmless.
        """
        if isinstance(message, WorkMessage):
            latest = await self.appender.current(message.job)
            if latest is not None and not await self._end(message, exhausted, latest):
                return
        await self.work.delete(message)

    async def _end(
        self, message: WorkMessage, exhausted: DeliveryLimitReached, latest: Latest
    ) -> bool:
        """Return False if the job is running again, so that the message is still needed."""
        owner = latest.head.status.owner
        if await self._has_begun_since(message, owner, exhausted.at):
            return False
        is_needed = False

        def plan(newest: Latest) -> e.Event | None:
            nonlocal is_needed
            is_needed = newest.head.status.owner not in (None, owner)
            return None if is_needed else plan_death(message, exhausted, newest, self.now())

        dead = await self.appender.append(message.job, latest, plan)
        if dead is not None:
            log.error(
                "job %s of %s/%s died: consumer %s reached its limit of %s deliveries",
                message.job.job_id,
                message.job.service,
                message.job.job_type,
                exhausted.consumer,
                exhausted.deliveries,
                extra={"job": message.job.job_id, "consumer": exhausted.consumer},
            )
            await self.keys.withdraw(message.job, message.begun.concurrency)
        return not is_needed

    async def _has_begun_since(
        self, message: WorkMessage, owner: Attempt | None, at: datetime
    ) -> bool:
        """Whether the attempt began after the limit was reached.

        A recreated consumer delivers exhausted messages again. This compares server times only,
        because a worker's clock may be wrong.
        """
        if owner is None or owner.work != message.work:
            return False
        started = await self.appender.newest(message.job, e.EventKind.STARTED)
        if started is None or not isinstance(started.event, e.Started):
            return False
        return started.event.attempt == owner and started.stored_at > at
