"""Puts jobs back to work that the log says are to be done, and no work message stands for.

Work messages can be lost by what happens to the streams: a purge, a stream made anew, sourcing that
forgot where it was (design D18). The server refuses to put back what is there; how many messages
there are only tells how thoroughly to look.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from jobs_admin.reads import candidates
from jobs_admin.reads.candidates import Candidate, PageEnd
from jobs_admin.upkeep.abreast import abreast
from jobs_admin.upkeep.verdicts import said_of
from trellis_jobs.contract.declaration import DEFAULT_ACK_WAIT
from trellis_jobs.model import events as e
from trellis_jobs.model.job_errors import Interruption, JobError
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta

    from jobs_admin.reads.readers import Readers
    from jobs_admin.server_clock import ServerClock
    from jobs_admin.upkeep.absences import Absences
    from jobs_admin.upkeep.verdicts import Verdicts
    from trellis_jobs.jetstream.event_log import Latest
    from trellis_jobs.jetstream.queue_consumers import QueueConsumers
    from trellis_jobs.jetstream.work_messages import WorkMessages
    from trellis_jobs.model.attempts import Attempt
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.standing import Standing

log = logging.getLogger(__name__)

_STATES: Final = (JobState.PENDING, JobState.RETRY, JobState.ACTIVE)
PAGE: Final = 500
# A sweep looks at so many of each state, and goes on while it finds that work was lost; at all of
# them where there are fewer messages than jobs.
_PAGES: Final = 4
_MOST_PAGES: Final = 200


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


def course(seen: Standing, stands: Standing | None) -> Course:
    """For a job without a work message; `seen` a while ago, and `stands` now."""
    if stands is None or stands != seen or stands.is_over:
        return Leave()
    if stands.state is not JobState.ACTIVE:
        return PutBack()
    # A foreign runtime names no worker, so nobody can tell whether it is gone.
    return Leave() if stands.owner is None else GiveUpOn(stands.owner)


def plan_loss(job: JobAddress, latest: Latest, lost: Attempt, now: datetime) -> e.Event | None:
    """Another try, unless this was the last; nothing when the job is no longer the lost one's."""
    standing = latest.head.standing
    if standing.owner != lost:
        return None
    error = JobError(
        type=Interruption.WORK_LOST,
        message=f"worker {lost.instance} is gone, and so is the work message",
        tries=standing.tries,
        at=now,
    )
    said = said_of(job, latest, now)
    if standing.tries_are_used_up:
        return e.Dead(**said, attempt=lost, error=error)
    return e.RetryScheduled(**said, attempt=lost, error=error)


@dataclass(slots=True, kw_only=True)
class Reconciliation:
    readers: Readers
    verdicts: Verdicts
    work: WorkMessages
    consumers: QueueConsumers
    absences: Absences
    clock: ServerClock
    now: Callable[[], datetime]
    grace: timedelta
    went_on: Callable[[], None]
    _places: dict[JobState, PageEnd] = field(
        default_factory=lambda: dict.fromkeys(_STATES, PageEnd())
    )
    # Jobs without a message that were left as they are, as those that a worker still runs.
    _left: int = 0

    async def sweep(self) -> None:
        """Some of each state, from where the last sweep ended: by and by all have their turn.

        At once all of them where more jobs than before are without a message.
        """
        missing = await self._missing()
        self._left = min(self._left, missing)
        if missing == self._left:
            for state in _STATES:
                await self._look_at_some(state)
            return
        # Work may be lost, or the projection behind: which of them, each job tells by itself.
        log.info("more jobs than work: every job is looked at", extra={"jobs": missing})
        for state in _STATES:
            self._places[state] = PageEnd()
            while (await self._look(state))[0] == PAGE:
                pass
        self._left = await self._missing()

    async def _missing(self) -> int:
        """At least so many jobs have no message; there may be others that have two.

        The messages first: whatever rests afterwards was there before.
        """
        messages = await self.work.in_all()
        since = await self.clock.now() - self.grace
        return max(0, await candidates.how_many_rest(self.readers, since) - messages)

    async def _look_at_some(self, state: JobState) -> None:
        for page in range(_MOST_PAGES):
            looked_at, put_back = await self._look(state)
            if looked_at < PAGE or (page + 1 >= _PAGES and not put_back):
                break

    async def _look(self, state: JobState) -> tuple[int, int]:
        quiet = await candidates.quiet(
            self.readers,
            state,
            await self.clock.now() - self.grace,
            after=self._places[state],
            limit=PAGE,
        )
        self._places[state] = quiet[-1].place if len(quiet) == PAGE else PageEnd()
        put_back = sum(await abreast(self._reconcile, quiet))
        self.went_on()
        if put_back:
            log.warning("jobs without a work message were put back", extra={"jobs": put_back})
        return len(quiet), put_back

    async def _reconcile(self, quiet: Candidate) -> bool:
        """The work queue is asked before the log: a message is acknowledged after its job ended."""
        job = quiet.job
        if await self.work.is_there(job):
            return False
        latest = await self.verdicts.current(job, quiet.seen)
        standing = quiet.seen.head.standing
        match course(standing, latest.head.standing if latest else None):
            case PutBack():
                return await self.work.put_back(job, standing.run)
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
        if ended is None or ended.head.standing.is_over:
            return False
        return await self.work.put_back(job, ended.head.standing.run)
