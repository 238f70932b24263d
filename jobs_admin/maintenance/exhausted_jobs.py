"""Jobs whose work message is delivered no more: dead, with the reason, and the message gone."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs_admin.actions.guarded_append import said_of
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
class Exhausted:
    """`at`: since when, by the server's time; a job that was started after that is none of it."""

    consumer: str
    deliveries: int
    at: datetime


def stands_for(message: WorkMessage, status: JobStatus) -> bool:
    """Whether the job would still be run from this message, if it were delivered."""
    if status.is_over or status.run != message.run:
        return False
    runs_from = status.owner.work if status.owner is not None else None
    return runs_from in (None, message.work)


def plan_death(
    message: WorkMessage, exhausted: Exhausted, latest: Latest, now: datetime
) -> e.Dead | None:
    """In the name of the attempt that owns the job, if one does: that is the one that is lost."""
    status = latest.head.status
    if not stands_for(message, status):
        return None
    last = f", the last time to worker {status.owner.instance}" if status.owner else ""
    error = JobError(
        type=Interruption.DELIVERIES_EXHAUSTED,
        message=(
            f"consumer {exhausted.consumer} delivered the job {exhausted.deliveries} times"
            f"{last}, and no worker brought it to an end"
        ),
        tries=status.tries,
        at=now,
    )
    return e.Dead(**said_of(message.job, latest, now), attempt=status.owner, error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Burials:
    verdicts: GuardedAppender
    work: WorkMessages
    keys: JobKeys
    now: Callable[[], datetime]

    async def bury(self, message: WorkMessage | InvalidWorkMessage, exhausted: Exhausted) -> None:
        """The job first, then its place in its key, then the message: safe to repeat anywhere."""
        if isinstance(message, WorkMessage):
            latest = await self.verdicts.current(message.job)
            if latest is not None and not await self._end(message, exhausted, latest):
                return
        await self.work.delete(message)

    async def _end(self, message: WorkMessage, exhausted: Exhausted, latest: Latest) -> bool:
        """False: the job runs again by now, so the message is needed."""
        owner = latest.head.status.owner
        if await self._has_begun_since(message, owner, exhausted.at):
            return False
        is_needed = False

        def plan(newest: Latest) -> e.Event | None:
            nonlocal is_needed
            is_needed = newest.head.status.owner not in (None, owner)
            return None if is_needed else plan_death(message, exhausted, newest, self.now())

        dead = await self.verdicts.append(message.job, latest, plan)
        if dead is not None:
            log.error(
                "job %s of %s/%s died: consumer %s delivered it %s times, which is its limit",
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
        """A consumer that was made anew delivers exhausted messages from the beginning.

        By the server's time alone: the worker's clock may be wrong.
        """
        if owner is None or owner.work != message.work:
            return False
        started = await self.verdicts.started(message.job)
        if started is None:
            return False
        event, stored_at = started
        return event.attempt == owner and stored_at > at
