"""Puts jobs back to work that should be worked on and have no work message.

Work messages can be lost by what happens to the streams: a purge, a stream made anew, sourcing that
forgot where it was (design D18). The server refuses to put back a message that is there.

Each sweep first compares two counts: jobs that have not moved for a while, and work messages. They
are compared only when the projection has every event up to the moment of the second count, so that
a projection that lags is never taken for lost work (missing_work.py). If messages are missing,
every job is checked. Otherwise a sweep checks a few: on a queue that never rests, messages of jobs
that just began could make up for lost ones in the count.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from jobs_admin.actions.guarded_append import said_of
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
    from jobs_admin.maintenance.worker_liveness import Absences
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
# How many jobs of each state a sweep checks when no message is known to be missing: the oldest, as
# a lost job stays while others are done, and the next ones in turn.
OLDEST: Final = 50
PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class PutBack:
    pass


@dataclass(frozen=True, slots=True)
class GiveUpOn:
    """The attempt that has the job is lost, if its worker has been gone for long enough."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Leave:
    """It has moved since, or whoever has it is not known to be gone."""


Course: TypeAlias = PutBack | GiveUpOn | Leave


def course(seen: JobStatus, stands: JobStatus | None) -> Course:
    """For a job without a work message; `seen` a while ago, and `stands` now."""
    if stands is None or stands != seen or stands.is_over:
        return Leave()
    if stands.state is not JobState.ACTIVE:
        return PutBack()
    # A foreign runtime names no worker, so nobody can tell whether it is gone.
    return Leave() if stands.owner is None else GiveUpOn(stands.owner)


def plan_loss(job: JobAddress, latest: Latest, lost: Attempt, now: datetime) -> e.Event | None:
    """Another try, unless this was the last; nothing when the job is no longer the lost one's."""
    status = latest.head.status
    if status.owner != lost:
        return None
    error = JobError(
        type=Interruption.WORK_LOST,
        message=f"worker {lost.instance} is gone, and so is the work message",
        tries=status.tries,
        at=now,
    )
    said = said_of(job, latest, now)
    if status.tries_exhausted:
        return e.Dead(**said, attempt=lost, error=error)
    return e.RetryScheduled(**said, attempt=lost, error=error)


@dataclass(slots=True, kw_only=True)
class Reconciliation:
    """`is_caught_up`: whether the projection has every event that the log holds at the call.

    `position`: how far the projection is. `went_on` is called whenever the sweep made progress.
    """

    readers: Readers
    verdicts: GuardedAppender
    work: WorkMessages
    consumers: QueueConsumers
    absences: Absences
    clock: ServerClock
    now: Callable[[], datetime]
    grace: timedelta
    is_caught_up: Callable[[], Awaitable[bool]]
    position: Callable[[], int]
    pace: Pace
    went_on: Callable[[], None]
    _places: dict[JobState, PageEnd] = field(
        default_factory=lambda: dict.fromkeys(_STATES, PageEnd())
    )
    # Jobs without a message that were left as they are, because a worker may still run them.
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
        """At least this many jobs have no message; None when the projection is behind.

        The order matters: whatever was acknowledged before the messages were counted has its end in
        the log by then, so a projection that has read the log as it is afterwards knows it.
        """
        since = await self.clock.now() - self.grace
        extent = await self.work.extent()
        if not await self.is_caught_up():
            return None
        return missing_messages(await candidates.how_many_rest(self.readers, since), extent)

    async def _check_some(self, state: JobState) -> None:
        """The oldest, then those after the place where the last sweep ended.

        Goes on while it finds that work was lost.
        """
        if self._places[state] != PageEnd():
            await self._check(state, PageEnd(), OLDEST)
        put_back = True
        while put_back:
            checked, put_back = await self._check_next(state)
            if checked < PAGE:
                break

    async def _check_all(self, state: JobState) -> None:
        self._places[state] = PageEnd()
        while (await self._check_next(state))[0] == PAGE:
            pass

    async def _check_next(self, state: JobState) -> tuple[int, bool]:
        """How many jobs were checked, and whether any was put back."""
        page, put_back = await self._check(state, self._places[state], PAGE)
        self._places[state] = page[-1].place if len(page) == PAGE else PageEnd()
        return len(page), put_back > 0

    async def _check(
        self, state: JobState, after: PageEnd, limit: int
    ) -> tuple[list[Candidate], int]:
        known_up_to = self.position()
        since = await self.clock.now() - self.grace
        page = await candidates.quiet(self.readers, state, since, after=after, limit=limit)
        check = partial(self._reconcile, known_up_to=known_up_to)
        put_back = sum(await self.pace.each(check, page, self.went_on))
        if put_back:
            log.warning(
                "reconcile: put %d jobs without a work message back to work",
                put_back,
                extra={"jobs": put_back},
            )
        return page, put_back

    async def _reconcile(self, quiet: Candidate, known_up_to: int) -> bool:
        """The work queue is asked before the log: a message is acknowledged after its job ended."""
        job = quiet.job
        if await self.work.exists(job):
            return False
        latest = await self.verdicts.unmoved(job, quiet.seen, known_up_to)
        status = quiet.seen.head.status
        match course(status, latest.head.status if latest else None):
            case PutBack():
                return await self.work.put_back(job, status.run)
            case GiveUpOn(lost) if latest is not None:
                return await self._give_up_on(job, lost, latest)
            case _:
                return False

    async def _give_up_on(self, job: JobAddress, lost: Attempt, latest: Latest) -> bool:
        consumer = await self.consumers.of(job.service, job.job_type)
        ack_wait = consumer.ack_wait if consumer else DEFAULT_ACK_WAIT
        if not await self.absences.is_lost(job, lost.instance, ack_wait):
            return False
        ended = await self.verdicts.append(
            job, latest, lambda newest: plan_loss(job, newest, lost, self.now())
        )
        if ended is None or ended.head.status.is_over:
            return False
        return await self.work.put_back(job, ended.head.status.run)
