"""Moves a job that waits to another time: sets its alarm, then appends `scheduled`.

The alarm comes first, so that it is never later than the log says. If the process dies in between,
the alarm comes early, and the worker process that receives it sets it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trellis_jobs.errors import DeadlineInvalid, JobNotFound, JobNotWaiting
from trellis_jobs.jetstream.log.decide_again import Appended, append_planned
from trellis_jobs.model import subjects
from trellis_jobs.model.alarms import EventWindow
from trellis_jobs.model.delays import MOVABLE_IF_SHARED, DeadlineTooEarly, reschedule
from trellis_jobs.model.job import Job, fold
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.alarms.alarms import Alarms
    from trellis_jobs.jetstream.log.event_log import EventLog, Refused
    from trellis_jobs.model.events import DecidedFields, Event, Scheduled
    from trellis_jobs.model.identity import JobAddress


class KnownJob(Value, frozen=True):
    job: Job
    head: Head


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMove:
    """`legal_from` are the states in which the job may be moved. `since` is as in JobRef.

    `shared`: other runtimes work on the queue, too.
    """

    address: JobAddress
    run_at: datetime
    legal_from: Collection[JobState]
    reason: str | None
    events: EventLog
    alarms: Alarms
    environment: Environment
    timeout: float
    shared: bool = False

    async def carry_out(self, since: int) -> Job | None:
        """Returns the job as it was before. Returns None for a pending job that stays as it is.

        Raises JobNotWaiting, JobNotFound and DeadlineInvalid.
        """
        moved = await append_planned(
            await self._read(since),
            self._plan,
            append=self._append,
            read=lambda refusal: self._read(refusal.last_sequence),
        )
        if isinstance(moved, Appended):
            return moved.before.job
        if moved is None:
            return None
        state = moved.job.state
        if state is JobState.PENDING and state not in self.legal_from:
            return None
        raise JobNotWaiting(self.address.job_id, state, shared=self.shared)

    async def _read(self, at_least: int) -> KnownJob:
        entries = await self.events.history(self.address, at_least=at_least)
        job = fold(entries)
        if job is None:
            raise JobNotFound(self.address.job_id)
        return KnownJob(job, Head(entries[-1].sequence, job.status))

    def _plan(self, known: KnownJob) -> Scheduled | None:
        if known.job.state not in (MOVABLE_IF_SHARED if self.shared else self.legal_from):
            return None
        decided: DecidedFields = {
            "by": self.address.service,
            "reason": self.reason,
            "request": None,
        }
        event = reschedule(known.job, self.run_at, self.environment.now(), decided)
        if isinstance(event, DeadlineTooEarly):
            why = f"the job would expire before it may run, at {self.run_at}"
            raise DeadlineInvalid(event.deadline, why)
        return event

    async def _append(self, head: Head, event: Event) -> Head | Refused:
        window = EventWindow(self.environment.monotonic)
        await self.alarms.set(subjects.alarm_of_job(self.address), self.run_at)
        return await self.events.try_append(head, event, timeout=window.limit(self.timeout))
