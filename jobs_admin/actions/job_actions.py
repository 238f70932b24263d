"""What operators do to jobs: each is one guarded event in the log, and never a change of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from jobs_admin.actions.job_follower import PATIENCE, JobFollower
from trellis_jobs.contract.topology import LOG
from trellis_jobs.infrastructure_errors import StreamFull
from trellis_jobs.jetstream.client import stored_message
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.model.concurrency import Concurrency
from trellis_jobs.model.job import Entry
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.reducer import RULES
from trellis_jobs.model.states import OVER, JobState
from trellis_jobs.wire import log as wire

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from jobs_admin.actions.job_follower import Known
    from jobs_admin.actions.job_keys import JobKeys
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.log.event_log import EventLog
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.job import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRequest:
    """Who wants it, why, and with which request."""

    by: str
    reason: str | None = None
    request: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    head: Head


@dataclass(frozen=True, slots=True)
class NotLegal:
    """The job is in a state from which this leads nowhere; `raced`: since a moment ago."""

    job: Job
    legal_from: tuple[str, ...]
    raced: bool = False


@dataclass(frozen=True, slots=True)
class NoSuchJob:
    pass


class Plan(Protocol):
    """The event that an order means for a job."""

    def __call__(self, job: Job, order: ActionRequest, at: datetime) -> e.Event: ...


def cancel(job: Job, order: ActionRequest, at: datetime) -> e.Event:
    return e.Cancelled(**_said(job, at), **_asked(order))


def dismiss(job: Job, order: ActionRequest, at: datetime) -> e.Event:
    return e.Dismissed(**_said(job, at), **_asked(order))


def retry(job: Job, order: ActionRequest, at: datetime) -> e.Event:
    """A fresh run of the same job, with all its tries; a deadline that has passed is not kept."""
    said = _said(job, at)
    said["tries"] = 0
    held = job.run.concurrency
    return e.Retried(
        **said,
        payload=job.payload,
        version=job.run.version,
        secrets=job.run.secrets,
        max_tries=job.max_tries,
        deadline=_still_ahead(job.deadline, at),
        concurrency=None if held is None else _only_the_key(held),
        **_asked(order),
    )


class Actions:
    def __init__(
        self,
        connection: Connection,
        events: EventLog,
        keys: JobKeys,
        now: Callable[[], datetime],
        *,
        patience: float = PATIENCE,
    ) -> None:
        self._connection = connection
        self._events = events
        self._keys = keys
        self._now = now
        self._patience = patience

    async def carry_out(
        self,
        plan: Plan,
        address: JobAddress,
        order: ActionRequest,
        *,
        legal_from: frozenset[JobState],
        known: Known | None = None,
    ) -> Done | NotLegal | NoSuchJob:
        """Decided on the whole history, and again whenever the job has moved meanwhile.

        `known` saves the read: if the job is not there any more, the guard of the append refuses.
        Then only the run that was known is changed, and not a later one. Raises JobKeepsMoving
        and NotConfirmed when that cannot be done in time.
        """
        chase = JobFollower(self._connection, self._events, address, patience=self._patience)
        raced = False
        run = None if known is None else known.job.status.run
        known = known or await chase.read()
        while known is not None:
            job = known.job
            if job.state not in legal_from or run not in (None, job.status.run):
                await self._leave_key(job, job.state)
                return NotLegal(job, tuple(sorted(legal_from)), raced)
            event = plan(job, order, self._now())
            if isinstance(event, e.Retried):
                await self._keys.let_in_again(event)
            try:
                appended = await self._events.try_append(known.head, event, timeout=self._patience)
            except StreamFull:
                await self._leave_key(job, job.state)  # the place that a retry has taken in its key
                raise
            if isinstance(appended, Head):
                await self._leave_key(job, appended.status.state)
                return Done(appended)
            raced, known = True, await chase.after(appended)
        return NoSuchJob()

    async def did(self, address: JobAddress, kind: e.EventKind, order: ActionRequest) -> bool:
        """Whether the job's newest event of that kind is of this order, by the leader's word."""
        subject = subjects.lifecycle(address, kind)
        newest = await stored_message.newest(self._connection, LOG, subject)
        if newest is None:
            return False
        read = wire.read(newest.subject, newest.sequence, newest.data, newest.headers)
        event = read.event if isinstance(read, Entry) else None
        return isinstance(event, e.Decided | e.Retried) and event.request == order.request

    async def _leave_key(self, job: Job, became: JobState) -> None:
        """A job that is over waits for nothing; the slot of one that ran is left to its worker."""
        if became in OVER and job.state is not JobState.ACTIVE:
            await self._keys.withdraw(job.address, job.run.concurrency)


def legal_from(kind: e.EventKind) -> frozenset[JobState]:
    """Where an event may begin, by the one reducer; a job that is not there is another matter."""
    return frozenset(state for state in RULES[kind].legal_from if state is not None)


def _said(job: Job, at: datetime) -> e.EventFields:
    return {"job": job.address, "context": job.context, "at": at, "tries": job.tries}


def _asked(order: ActionRequest) -> e.DecidedFields:
    return {"by": order.by, "reason": order.reason, "request": order.request}


def _still_ahead(deadline: datetime | None, at: datetime) -> datetime | None:
    return deadline if deadline is not None and deadline > at else None


def _only_the_key(held: Concurrency) -> Concurrency:
    return Concurrency(key=held.key, key_hash=held.key_hash)
