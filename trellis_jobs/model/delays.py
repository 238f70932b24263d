"""Move a job that waits to another time, or release it: the events that do so.

A job waits in the state `scheduled`, and also in `pending` and `retry`. Each move is one event,
guarded by the job's newest one. It begins a new run, so that the work message of the run before, if
there is one, is dropped by the worker that receives it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trellis_jobs.model.concurrency import Concurrency
from trellis_jobs.model.events import Created, DescribedFields, Scheduled
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from trellis_jobs.model.events import DecidedFields, EventFields
    from trellis_jobs.model.job import Job

# A pending job may run already, so releasing it would only move it to the end of its queue.
RELEASABLE: Final = frozenset({JobState.SCHEDULED, JobState.RETRY})
MOVABLE: Final = RELEASABLE | {JobState.PENDING}
# Other runtimes, and versions of this one that do not know `scheduled`, start a job whose work
# message they have, even if it was moved.
MOVABLE_IF_SHARED: Final = frozenset({JobState.SCHEDULED})


class DeadlineTooEarly(Value, frozen=True):
    """The job would expire before it may run."""

    deadline: datetime


def delayed(created: Created, run_at: datetime, deadline_after: timedelta | None) -> Scheduled:
    """The first event of a job that is not to run yet, from that of a job that is to run at once.

    `deadline_after` is the queue's default deadline, if the job has no other.
    """
    return Scheduled(
        job=created.job,
        context=created.context,
        at=created.at,
        tries=created.tries,
        payload=created.payload,
        max_tries=created.max_tries,
        version=created.version,
        secrets=created.secrets,
        deadline=created.deadline if deadline_after is None else run_at + deadline_after,
        try_limits=created.try_limits,
        concurrency=created.concurrency,
        schedule=created.schedule,
        run_at=run_at,
        deadline_after=deadline_after,
        by=created.by,
        reason=created.reason,
        request=created.request,
    )


def released(fields: EventFields, scheduled: Scheduled) -> Created:
    """The event with which a delayed job may run."""
    return Created(
        **fields,
        payload=scheduled.payload,
        max_tries=scheduled.max_tries,
        version=scheduled.version,
        secrets=scheduled.secrets,
        deadline=scheduled.deadline,
        try_limits=scheduled.try_limits,
        concurrency=scheduled.concurrency,
        run_at=scheduled.run_at,
        schedule=scheduled.schedule,
    )


def reschedule(
    job: Job, run_at: datetime, at: datetime, decided: DecidedFields
) -> Scheduled | DeadlineTooEarly:
    """The event that moves a job to another time. A default deadline moves with it."""
    description, after = _description(job), job.run.deadline_after
    if after is not None:
        description["deadline"] = run_at + after
    deadline = description["deadline"]
    if deadline is not None and deadline <= run_at:
        return DeadlineTooEarly(deadline)
    return Scheduled(
        **_event_fields(job, at), **description, run_at=run_at, deadline_after=after, **decided
    )


def _event_fields(job: Job, at: datetime) -> EventFields:
    return {"job": job.address, "context": job.context, "at": at, "tries": job.tries}


def _description(job: Job) -> DescribedFields:
    run = job.run
    held = run.concurrency
    return {
        "payload": run.payload,
        "max_tries": job.max_tries,
        "version": run.version,
        "secrets": run.secrets,
        "deadline": job.deadline,
        "try_limits": run.try_limits,
        "concurrency": None if held is None else Concurrency(key=held.key, key_hash=held.key_hash),
        "schedule": run.schedule,
    }
