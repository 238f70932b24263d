"""Republishes missing work messages of jobs that should run.

Work messages can be lost when a stream is purged or recreated, or when sourcing loses its position
(design D18). The server refuses to store a second message for a job, so republishing is safe.

Each sweep first compares two counts: jobs that have not changed for a while, and work messages. It
compares them only when the projection has every event up to the moment of the second count, so
that a projection that is behind is never mistaken for lost work (missing_work.py). If messages are
missing, every job is checked. Otherwise a sweep checks a few, because on a queue that is always
busy the messages of new jobs could hide lost ones in the count.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from jobs_admin.maintenance.missing_work import missing_messages
from jobs_admin.reads import candidates
from jobs_admin.reads.candidates import Candidate, PageEnd
from trellis_jobs.contract.declaration import DEFAULT_ACK_WAIT
from trellis_jobs.model import events as e
from trellis_jobs.model.job_errors import Interruption, JobError
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime, timedelta

    from jobs_admin.actions.guarded_append import GuardedAppender
    from jobs_admin.maintenance.pace import Pace
    from jobs_admin.maintenance.worker_liveness import WorkerLiveness
    from jobs_admin.reads.readers import Readers
    from trellis_jobs.jetstream.client.server_clock import ServerClock
    from trellis_jobs.jetstream.log.event_log import Latest
    from trellis_jobs.jetstream.work.consumer_info import QueueConsumers
    from trellis_jobs.jetstream.work.messages import WorkMessages
    from trellis_jobs.model.attempts import Attempt
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.job_status import JobStatus

log = logging.getLogger(__name__)

_STATES: Final = (JobState.PENDING, JobState.RETRY, JobState.ACTIVE)
# How many of the oldest jobs of each state a sweep checks when no message is known to be missing:
# a lost job stays while others are done. After these it continues where the last sweep ended.
OLDEST: Final = 50
PAGE_SIZE: Final = 500


@dataclass(frozen=True, slots=True)
class PutBack:
    pass


@dataclass(frozen=True, slots=True)
class MarkAttemptLost:
    """The attempt that owns the job is lost, if its worker has been gone for long enough."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class LeaveAlone:
    """The job has changed since, or its worker may still be alive."""


Decision: TypeAlias = PutBack | MarkAttemptLost | LeaveAlone


def decide(seen: JobStatus, stands: JobStatus | None) -> Decision:
    """Decide about a job without a work message that was at `seen` and is at `stands` now."""
    if stands is None or stands != seen or stands.is_over:
        return LeaveAlone()
    if stands.state is not JobState.ACTIVE:
        return PutBack()
    # Events of another runtime name no worker, so whether it is gone is unknown.
    return LeaveAlone() if stands.owner is None else MarkAttemptLost(stands.owner)


def plan_loss(job: JobAddress, latest: Latest, lost: Attempt, now: datetime) -> e.Event | None:
    """Plan another try, or the job's death if it has none left; None if another attempt owns it."""
    status = latest.head.status
    if status.owner != lost:
        return None
    error = JobError(
        type=Interruption.WORK_LOST,
        message=f"worker {lost.instance} is gone, and so is the work message",
        tries=status.tries,
        at=now,
    )
    fields = latest.event_fields(job, now)
    if status.tries_exhausted:
        return e.Dead(**fields, attempt=lost, error=error)
    return e.RetryScheduled(**fields, attempt=lost, error=error)


@dataclass(slots=True, kw_only=True)
class Reconciliation:
    """`is_caught_up`: whether the projection has every event that the log holds at the call.

    `position`: how far the projection is. `report_progress` is called when the sweep progresses.
    """

    readers: Readers
    appender: GuardedAppender
    work: WorkMessages
    consumers: QueueConsumers
    liveness: WorkerLiveness
    clock: ServerClock
    now: Callable[[], datetime]
    grace: timedelta
    is_caught_up: Callable[[], Awaitable[bool]]
    position: Callable[[], int]
    pace: Pace
    report_progress: Callable[[], None]
    _page_ends: dict[JobState, PageEnd] = field(
        default_factory=lambda: dict.fromkeys(_STATES, PageEnd())
    )
    # Jobs without a message that were left alone, because a worker may still run them.
    _left: int = 0

    async def sweep(self) -> None:
        missing = await self._missing()
        if missing is not None:
            self._left = min(self._left, missing)
        if missing is None or missing == self._left:
            for state in _STATES:
                await self._check_some(state)
            return
        log.warning(
            "reconcile: %d jobs have no work message, checking all jobs",
            missing,
            extra={"jobs": missing},
        )
        for state in _STATES:
            await self._check_all(state)
        missing = await self._missing()
        self._left = self._left if missing is None else missing

    async def _missing(self) -> int | None:
        """Count at least how many jobs have no message; None when the projection is behind.

        The order matters: a message that was acknowledged before the count belongs to a job whose
        end is in the log, so a projection that has caught up afterwards knows that end.
        """
        since = await self.clock.now() - self.grace
        extent = await self.work.extent()
        if not await self.is_caught_up():
            return None
        return missing_messages(await candidates.count_resting(self.readers, since), extent)

    async def _check_some(self, state: JobState) -> None:
        """Check the oldest jobs, then those after the job at which the last sweep ended.

        Continue while lost work is found.
        """
        if self._page_ends[state] != PageEnd():
            await self._check(state, PageEnd(), OLDEST)
        put_back = True
        while put_back:
            checked, put_back = await self._check_next(state)
            if checked < PAGE_SIZE:
                break

    async def _check_all(self, state: JobState) -> None:
        self._page_ends[state] = PageEnd()
        while (await self._check_next(state))[0] == PAGE_SIZE:
            pass

    async def _check_next(self, state: JobState) -> tuple[int, bool]:
        """Return how many jobs were checked, and whether any was republished."""
        page, put_back = await self._check(state, self._page_ends[state], PAGE_SIZE)
        self._page_ends[state] = page[-1].page_end if len(page) == PAGE_SIZE else PageEnd()
        return len(page), put_back > 0

    async def _check(
        self, state: JobState, after: PageEnd, limit: int
    ) -> tuple[list[Candidate], int]:
        known_up_to = self.position()
        since = await self.clock.now() - self.grace
        page = await candidates.resting(self.readers, state, since, after=after, limit=limit)
        check = partial(self._reconcile, known_up_to=known_up_to)
        put_back = sum(await self.pace.each(check, page, self.report_progress))
        if put_back:
            log.warning(
                "reconcile: republished the missing work messages of %d jobs",
                put_back,
                extra={"jobs": put_back},
            )
        return page, put_back

    async def _reconcile(self, candidate: Candidate, known_up_to: int) -> bool:
        """Read the work queue before the log: a message is acknowledged after its job has ended."""
        job = candidate.job
        if await self.work.exists(job):
            return False
        latest = await self.appender.unmoved(job, candidate.seen, known_up_to)
        status = candidate.seen.head.status
        match decide(status, latest.head.status if latest else None):
            case PutBack():
                return await self.work.put_back(job, status.run)
            case MarkAttemptLost(lost) if latest is not None:
                return await self._mark_lost(job, lost, latest)
            case _:
                return False

    async def _mark_lost(self, job: JobAddress, lost: Attempt, latest: Latest) -> bool:
        consumer = await self.consumers.of(job.service, job.job_type)
        ack_wait = consumer.ack_wait if consumer else DEFAULT_ACK_WAIT
        if not await self.liveness.is_lost(job, lost.instance, ack_wait):
            return False
        ended = await self.appender.append(
            job, latest, lambda newest: plan_loss(job, newest, lost, self.now())
        )
        if ended is None or ended.head.status.is_over:
            return False
        return await self.work.put_back(job, ended.head.status.run)
