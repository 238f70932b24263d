"""The actions of operators on jobs: each appends one guarded event to the log."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from jobs_admin.actions.job_follower import FOLLOW_TIMEOUT, JobFollower
from trellis_jobs.contract.topology import LOG
from trellis_jobs.errors import DeadlineInvalid, StreamFull
from trellis_jobs.jetstream.client import stored_message
from trellis_jobs.jetstream.log.decide_again import Appended, append_planned
from trellis_jobs.model import delays, subjects
from trellis_jobs.model import events as e
from trellis_jobs.model.alarms import MAX_HOLD, EventWindow
from trellis_jobs.model.concurrency import Concurrency
from trellis_jobs.model.job import Entry
from trellis_jobs.model.reducer import RULES
from trellis_jobs.model.states import JobState
from trellis_jobs.wire import log as wire

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from jobs_admin.actions.job_follower import Known
    from jobs_admin.actions.job_keys import JobKeys
    from trellis_jobs.jetstream.alarms.alarms import Alarms
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.log.event_log import EventLog, Refused
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.job import Job
    from trellis_jobs.model.job_status import Head, JobStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRequest:
    """Who requested the action, why, and the id of the request.

    `run_at` is the time to which jobs are moved; None for other actions.
    """

    by: str
    reason: str | None = None
    request: str | None = None
    run_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Done:
    head: Head


@dataclass(frozen=True, slots=True)
class NotLegal:
    """The action is not legal in the job's state; `raced`: it was legal a moment ago."""

    job: Job
    legal_from: tuple[str, ...]
    raced: bool = False


@dataclass(frozen=True, slots=True)
class NoSuchJob:
    pass


class Plan(Protocol):
    """Makes the event of an action on a job."""

    def __call__(self, job: Job, action: ActionRequest, at: datetime) -> e.Event: ...


def cancel(job: Job, action: ActionRequest, at: datetime) -> e.Event:
    return e.Cancelled(**_event_fields(job, at), **_decided_fields(action))


def dismiss(job: Job, action: ActionRequest, at: datetime) -> e.Event:
    return e.Dismissed(**_event_fields(job, at), **_decided_fields(action))


def retry(job: Job, action: ActionRequest, at: datetime) -> e.Event:
    """Start a new run of the same job, with all its tries and without a deadline that passed."""
    fields = _event_fields(job, at)
    fields["tries"] = 0
    held = job.run.concurrency
    return e.Retried(
        **fields,
        payload=job.payload,
        version=job.run.version,
        secrets=job.run.secrets,
        max_tries=job.max_tries,
        deadline=_still_ahead(job.deadline, at),
        try_limits=job.run.try_limits,
        concurrency=None if held is None else _only_the_key(held),
        run_at=job.run.run_at,
        schedule=job.run.schedule,
        **_decided_fields(action),
    )


def reschedule(job: Job, action: ActionRequest, at: datetime) -> e.Event:
    """Move a job that waits to another time. Raises DeadlineInvalid if it would expire before."""
    run_at = action.run_at or at
    moved = delays.reschedule(job, run_at, at, _decided_fields(action))
    if isinstance(moved, delays.DeadlineTooEarly):
        raise DeadlineInvalid(
            moved.deadline, f"the job would expire before it may run, at {run_at}"
        )
    return moved


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions:
    """`timeout` limits each append, and how long a job is followed, in seconds."""

    connection: Connection
    events: EventLog
    keys: JobKeys
    alarms: Alarms
    now: Callable[[], datetime]
    timeout: float = FOLLOW_TIMEOUT

    async def carry_out(
        self,
        plan: Plan,
        address: JobAddress,
        action: ActionRequest,
        *,
        legal_from: frozenset[JobState],
        known: Known | None = None,
    ) -> Done | NotLegal | NoSuchJob:
        """Append the event of the action; decide again whenever the job has changed.

        `known` saves reading the job: if it has changed since, the server refuses the append. With
        `known`, only that run is changed and not a later one. Raises JobContention or NotConfirmed
        when the event cannot be appended in time.
        """
        follower = JobFollower(self.connection, self.events, address, timeout=self.timeout)
        run = None if known is None else known.job.status.run
        first = known or await follower.read()
        if first is None:
            return NoSuchJob()

        def plan_if_legal(known: Known) -> e.Event | None:
            is_legal = known.job.state in legal_from and run in (None, known.job.status.run)
            return plan(known.job, action, self.now()) if is_legal else None

        answer = await append_planned(
            first, plan_if_legal, append=self._append, read=follower.after
        )
        if answer is None:
            return NoSuchJob()
        if isinstance(answer, Appended):
            await self._clean_up(answer.before.job, answer.head.status)
            return Done(answer.head)
        await self._clean_up(answer.job, answer.job.status)
        return NotLegal(answer.job, tuple(sorted(legal_from)), raced=answer is not first)

    async def _append(self, head: Head, event: e.Event) -> Head | Refused:
        """Queues a retried job under its key first, and removes it again if the log is full."""
        if isinstance(event, e.Scheduled):
            return await self._move(head, event)
        if not isinstance(event, e.Retried):
            return await self.events.try_append(head, event, timeout=self.timeout)
        await self.keys.requeue(event)
        try:
            return await self.events.try_append(head, event, timeout=self.timeout)
        except StreamFull:
            await self.keys.withdraw(event.job, event.concurrency)
            raise

    async def _move(self, head: Head, event: e.Scheduled) -> Head | Refused:
        """Sets the alarm first, so that it is never later than the log says."""
        window = EventWindow(time.monotonic)
        alarm = subjects.alarm_of_job(event.job)
        await self.alarms.set(alarm, event.run_at, timeout=self.timeout)
        return await self.events.try_append(head, event, timeout=window.limit(self.timeout))

    async def has_done(self, address: JobAddress, kind: e.EventKind, action: ActionRequest) -> bool:
        """Whether the job's newest event of that kind is from this action; reads the leader."""
        subject = subjects.lifecycle(address, kind)
        newest = await stored_message.newest(self.connection, LOG, subject)
        if newest is None:
            return False
        read = wire.read(newest.subject, newest.sequence, newest.data, newest.headers)
        event = read.event if isinstance(read, Entry) else None
        if not isinstance(event, e.Decided | e.Retried | e.Scheduled):
            return False
        return event.request == action.request

    async def _clean_up(self, before: Job, became: JobStatus) -> None:
        """Remove what the job does not need any more: its entry in its key's queue, its alarm.

        A running job's worker frees its slot. An alarm that is left is dropped when it comes.
        """
        is_delayed = before.state is JobState.SCHEDULED
        has_ended = became.is_over and before.state is not JobState.ACTIVE
        if has_ended or (not is_delayed and self._waits_for_its_time(became)):
            await self.keys.withdraw(before.address, before.run.concurrency)
        if has_ended and is_delayed:
            self.alarms.remove([subjects.alarm_of_job(before.address)])

    def _waits_for_its_time(self, status: JobStatus) -> bool:
        """A job that is released at once keeps its place: it may be in use again by now."""
        return (
            status.state is JobState.SCHEDULED
            and status.next_attempt_at is not None
            and status.next_attempt_at > self.now() + MAX_HOLD
        )


def legal_from(kind: e.EventKind) -> frozenset[JobState]:
    """The states in which an event is legal, from the reducer's rules."""
    return frozenset(state for state in RULES[kind].legal_from if state is not None)


def _event_fields(job: Job, at: datetime) -> e.EventFields:
    return {"job": job.address, "context": job.context, "at": at, "tries": job.tries}


def _decided_fields(action: ActionRequest) -> e.DecidedFields:
    return {"by": action.by, "reason": action.reason, "request": action.request}


def _still_ahead(deadline: datetime | None, at: datetime) -> datetime | None:
    return deadline if deadline is not None and deadline > at else None


def _only_the_key(held: Concurrency) -> Concurrency:
    return Concurrency(key=held.key, key_hash=held.key_hash)
