"""A job, computed from its history by applying one event after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trellis_jobs.model import events as e
from trellis_jobs.model.notes import NOTHING_NOTED
from trellis_jobs.model.redaction import redacted
from trellis_jobs.model.reducer import NOTES, Illegal, advance
from trellis_jobs.model.values import Value, replace, repr_with

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, timedelta

    from trellis_jobs.model.concurrency import Concurrency, QueuePolicy
    from trellis_jobs.model.context import JobContext
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.job_errors import JobError
    from trellis_jobs.model.job_status import JobStatus
    from trellis_jobs.model.json_values import Json
    from trellis_jobs.model.notes import LogLine, Progress
    from trellis_jobs.model.states import JobState
    from trellis_jobs.model.try_limits import TryLimits

ERRORS_KEPT: Final = 20
LOGS_KEPT: Final = 1000


class LastSnooze(Value, frozen=True):
    """The newest snooze of a run. `until` is None when it is over: the job ran, moved or ended."""

    reason: str
    until: datetime | None


class Run(Value, frozen=True, kw_only=True):
    """One run of the job; an operator's retry starts a new run.

    Only the newest errors and log lines are kept here; the history has all of them. `begun_by` is
    the operator who retried the job. `ended_by` is who ended it, for example by cancelling it, and
    None when its handler ended it. `version` is the payload's version. `secrets` and
    `result_secrets` are JSON Pointers to the secret fields of payload and result. `instance` and
    `app_version` are those of the worker that started the newest try. `run_at` is the time for
    which the job was scheduled; None if it was to run at once. `schedule` is the name of the
    schedule that created it. `deadline_after` is as in a `scheduled` event.
    """

    payload: Json
    began_at: datetime
    version: int = 1
    secrets: tuple[str, ...] = ()
    started_at: datetime | None = None
    ended_at: datetime | None = None
    result: Json = None
    result_secrets: tuple[str, ...] = ()
    errors: tuple[JobError, ...] = ()
    progress: Progress | None = None
    logs: tuple[LogLine, ...] = ()
    ended_because: str | None = None
    begun_by: str | None = None
    ended_by: str | None = None
    instance: str | None = None
    app_version: str | None = None
    try_limits: TryLimits | None = None
    concurrency: Concurrency | None = None
    queue_policy: QueuePolicy | None = None
    run_at: datetime | None = None
    schedule: str | None = None
    deadline_after: timedelta | None = None
    snooze: LastSnooze | None = None

    @property
    def snoozed_until(self) -> datetime | None:
        """When the job runs again. None unless it is snoozed."""
        return None if self.snooze is None else self.snooze.until

    @property
    def snooze_reason(self) -> str | None:
        """The reason of the newest snooze, also when it is over."""
        return None if self.snooze is None else self.snooze.reason

    def __repr__(self) -> str:
        return repr_with(
            self,
            payload=redacted(self.payload, self.secrets),
            result=redacted(self.result, self.result_secrets),
        )


class Job(Value, frozen=True, kw_only=True):
    """`created_by` and `created_reason`: who created the job, and why; None if its service did."""

    address: JobAddress
    context: JobContext
    status: JobStatus
    created_at: datetime
    updated_at: datetime
    run: Run
    earlier_runs: tuple[Run, ...] = ()
    created_by: str | None = None
    created_reason: str | None = None

    @property
    def id(self) -> str:
        return self.address.job_id

    @property
    def state(self) -> JobState:
        return self.status.state

    @property
    def tries(self) -> int:
        return self.status.tries

    @property
    def max_tries(self) -> int:
        return self.status.max_tries

    @property
    def snoozes(self) -> int:
        """How often handlers have snoozed the job in this run."""
        return self.status.snoozes

    @property
    def deadline(self) -> datetime | None:
        return self.status.deadline

    @property
    def is_over(self) -> bool:
        return self.status.is_over

    @property
    def payload(self) -> Json:
        return self.run.payload

    @property
    def result(self) -> Json:
        return self.run.result

    @property
    def progress(self) -> Progress | None:
        return self.run.progress

    @property
    def logs(self) -> tuple[LogLine, ...]:
        return self.run.logs

    @property
    def errors(self) -> tuple[JobError, ...]:
        return self.run.errors

    @property
    def last_error(self) -> JobError | None:
        return self.run.errors[-1] if self.run.errors else None

    @property
    def why(self) -> str | None:
        """Why the job ended or is snoozed, or its last error, as text."""
        if self.run.snoozed_until is not None:
            return f"snoozed: {self.run.snooze_reason}"
        if self.run.ended_because is not None or self.last_error is None:
            return self.run.ended_because
        return f"{self.last_error.type}: {self.last_error.message}"


class Entry(Value, frozen=True):
    """An event with its log sequence. `status` is None when a foreign runtime wrote the event."""

    sequence: int
    event: e.Event
    status: JobStatus | None = None


class Applied(Value, frozen=True):
    job: Job


class Ignored(Value, frozen=True):
    job: Job | None
    reason: str


def reduce(job: Job | None, entry: Entry) -> Applied | Ignored:
    """Apply one event, or return why it is ignored."""
    moved = advance(job.status if job else None, entry.event)
    if isinstance(moved, Illegal):
        return Ignored(job, moved.reason)
    return Applied(_apply_to_job(job, entry.event, moved.recorded_at(entry.sequence)))


def fold(history: Iterable[Entry], job: Job | None = None) -> Job | None:
    """Apply the events of a history in order. `job` is the job before these events."""
    for entry in history:
        job = reduce(job, entry).job
    return job


def _apply_to_job(job: Job | None, event: e.Event, status: JobStatus) -> Job:
    """Return the job with the event's data and its new status."""
    if isinstance(event, e.Described):
        return _begin(job, event, status)
    if job is None:
        raise TypeError(f"{event.kind} cannot begin a job")
    ended_at = event.at if status.is_over and not job.is_over else job.run.ended_at
    run = _apply_to_run(job.run, event, ended_at)
    if run.snooze is not None or isinstance(event, e.RetryScheduled):
        run = _apply_snooze(run, event)
    # Written out, because replace() would take a sixth of the time to project an event.
    return Job(
        address=job.address,
        context=job.context,
        status=status,
        created_at=job.created_at,
        updated_at=event.at,
        run=run,
        earlier_runs=job.earlier_runs,
        created_by=job.created_by,
        created_reason=job.created_reason,
    )


def _begin(job: Job | None, event: e.Described, status: JobStatus) -> Job:
    run = Run(
        payload=event.payload,
        began_at=event.at,
        version=event.version,
        secrets=event.secrets,
        begun_by=event.by if isinstance(event, e.Retried) else None,
        try_limits=event.try_limits,
        concurrency=event.concurrency,
        queue_policy=event.queue_policy,
        run_at=event.run_at,
        schedule=event.schedule,
        deadline_after=event.deadline_after if isinstance(event, e.Scheduled) else None,
    )
    continues = job is not None and not job.is_over
    created_by, created_reason = _creator(job, event)
    return Job(
        address=event.job,
        context=event.context,
        status=status,
        created_at=job.created_at if job else event.at,
        updated_at=event.at,
        run=_continued(run, job.run) if job and continues else run,
        earlier_runs=_earlier_runs(job, continues=continues),
        created_by=created_by,
        created_reason=created_reason,
    )


def _creator(job: Job | None, event: e.Described) -> tuple[str | None, str | None]:
    """The first event says it; but a history whose beginning was removed begins with `retried`."""
    if job is not None:
        return job.created_by, job.created_reason
    return (None, None) if isinstance(event, e.Retried) else (event.by, event.reason)


def _earlier_runs(job: Job | None, *, continues: bool) -> tuple[Run, ...]:
    if job is None:
        return ()
    return job.earlier_runs if continues else (*job.earlier_runs, job.run)


def _continued(run: Run, before: Run) -> Run:
    """The run with what its tries left before the job was moved to another time or released."""
    return replace(
        run,
        begun_by=before.begun_by,
        started_at=before.started_at,
        instance=before.instance,
        app_version=before.app_version,
        errors=before.errors,
        snooze=None if before.snooze is None else replace(before.snooze, until=None),
        progress=before.progress,
        logs=before.logs,
        # A released job keeps it, so that its default deadline moves if the job is moved again.
        deadline_after=run.deadline_after or before.deadline_after,
    )


def _apply_snooze(run: Run, event: e.Event) -> Run:
    """A note leaves a job snoozed. Every other event starts, moves or ends it."""
    if isinstance(event, e.RetryScheduled) and event.is_snooze:
        return replace(run, snooze=LastSnooze(event.error.message, event.next_attempt_at))
    if run.snooze is None or run.snooze.until is None or event.kind in NOTES:
        return run
    return replace(run, snooze=replace(run.snooze, until=None))


def _apply_to_run(run: Run, event: e.Event, ended_at: datetime | None) -> Run:
    started_at, held = run.started_at, run.concurrency
    instance, app_version = run.instance, run.app_version
    result, result_secrets, errors = run.result, run.result_secrets, run.errors
    because, by = run.ended_because, run.ended_by
    match event:
        case e.Started():
            started_at, held = event.at, event.concurrency or held
            instance = None if event.attempt is None else event.attempt.instance
            app_version = event.app_version
        case e.Completed():
            result, result_secrets = event.result, event.secrets
        case e.RetryScheduled(is_snooze=False) | e.Failed() | e.Dead() | e.Stale():
            errors = (*errors, event.error)[-ERRORS_KEPT:]
        case e.Decided():
            because, by = event.reason, event.by
    notes = event.notes if isinstance(event, e.AttemptEvent) else NOTHING_NOTED
    # Written out for the same reason as in _apply_to_job.
    return Run(
        payload=run.payload,
        began_at=run.began_at,
        version=run.version,
        secrets=run.secrets,
        started_at=started_at,
        ended_at=ended_at,
        result=result,
        result_secrets=result_secrets,
        errors=errors,
        progress=notes.progress or run.progress,
        logs=(run.logs + notes.lines)[-LOGS_KEPT:] if notes.lines else run.logs,
        ended_because=because,
        begun_by=run.begun_by,
        ended_by=by,
        instance=instance,
        app_version=app_version,
        try_limits=run.try_limits,
        concurrency=held,
        queue_policy=run.queue_policy,
        run_at=run.run_at,
        schedule=run.schedule,
        deadline_after=run.deadline_after,
        snooze=run.snooze,
    )
