"""The actions of operators on jobs: each appends one guarded event to the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from jobs_admin.actions.job_follower import FOLLOW_TIMEOUT, JobFollower
from trellis_jobs.contract.topology import LOG
from trellis_jobs.errors import StreamFull
from trellis_jobs.jetstream.client import stored_message
from trellis_jobs.jetstream.log.decide_again import Appended, append_planned
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.model.concurrency import Concurrency
from trellis_jobs.model.job import Entry
from trellis_jobs.model.reducer import RULES
from trellis_jobs.model.states import OVER, JobState
from trellis_jobs.wire import log as wire

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from jobs_admin.actions.job_follower import Known
    from jobs_admin.actions.job_keys import JobKeys
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.log.event_log import EventLog, Refused
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.job import Job
    from trellis_jobs.model.job_status import Head


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRequest:
    """Who requested the action, why, and the id of the request."""

    by: str
    reason: str | None = None
    request: str | None = None


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
        **_decided_fields(action),
    )


class Actions:
    def __init__(
        self,
        connection: Connection,
        events: EventLog,
        keys: JobKeys,
        now: Callable[[], datetime],
        *,
        timeout: float = FOLLOW_TIMEOUT,
    ) -> None:
        self._connection = connection
        self._events = events
        self._keys = keys
        self._now = now
        self._timeout = timeout

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
        follower = JobFollower(self._connection, self._events, address, timeout=self._timeout)
        run = None if known is None else known.job.status.run
        first = known or await follower.read()
        if first is None:
            return NoSuchJob()

        def plan_if_legal(known: Known) -> e.Event | None:
            is_legal = known.job.state in legal_from and run in (None, known.job.status.run)
            return plan(known.job, action, self._now()) if is_legal else None

        answer = await append_planned(
            first, plan_if_legal, append=self._append, read=follower.after
        )
        if answer is None:
            return NoSuchJob()
        if isinstance(answer, Appended):
            await self._leave_key(answer.before.job, answer.head.status.state)
            return Done(answer.head)
        await self._leave_key(answer.job, answer.job.state)
        return NotLegal(answer.job, tuple(sorted(legal_from)), raced=answer is not first)

    async def _append(self, head: Head, event: e.Event) -> Head | Refused:
        """Queues a retried job under its key first, and removes it again if the log is full."""
        if not isinstance(event, e.Retried):
            return await self._events.try_append(head, event, timeout=self._timeout)
        await self._keys.requeue(event)
        try:
            return await self._events.try_append(head, event, timeout=self._timeout)
        except StreamFull:
            await self._keys.withdraw(event.job, event.concurrency)
            raise

    async def has_done(self, address: JobAddress, kind: e.EventKind, action: ActionRequest) -> bool:
        """Whether the job's newest event of that kind is from this action; reads the leader."""
        subject = subjects.lifecycle(address, kind)
        newest = await stored_message.newest(self._connection, LOG, subject)
        if newest is None:
            return False
        read = wire.read(newest.subject, newest.sequence, newest.data, newest.headers)
        event = read.event if isinstance(read, Entry) else None
        return isinstance(event, e.Decided | e.Retried) and event.request == action.request

    async def _leave_key(self, job: Job, became: JobState) -> None:
        """Remove an ended job from its key's queue; a running job's worker frees its slot."""
        if became in OVER and job.state is not JobState.ACTIVE:
            await self._keys.withdraw(job.address, job.run.concurrency)


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
