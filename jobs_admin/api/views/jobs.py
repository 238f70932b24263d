"""Jobs as operators are shown them, their logs, and why they are where they are."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, JsonValue, model_validator

from jobs_admin.api.reasons import Because
from jobs_admin.api.views.shape import Page, View, with_missing
from trellis_jobs.model.states import JobState


class ContextView(View):
    request_id: str
    trace_id: str
    traceparent: str
    tracestate: str | None = None


class ErrorView(View):
    type: str
    message: str
    tries: int
    timestamp: datetime
    traceback: str | None = None


class ProgressView(View):
    step: str | None = None
    message: str | None = None
    current: int | None = None
    total: int | None = None


class LogLineView(View):
    """`run_seq` tells which run said it."""

    timestamp: datetime
    level: str
    message: str
    run_seq: int

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, told: Any) -> Any:
        return with_missing(told, run_seq=0)


class AttemptView(View):
    """Who runs the job, and which delivery of which work message began that."""

    id: str
    instance_id: str
    work: str
    delivery: int


class ConcurrencyView(View):
    key: str
    key_hash: str
    slot_token: str | None = None
    instance_id: str | None = None
    heartbeat_at: datetime | None = None
    lease_expires_at: datetime | None = None
    stale_takeover_count: int | None = None


class QueuePolicyView(View):
    outcome: str
    reason: str | None = None
    existing_job_id: str | None = None
    replaced_job_id: str | None = None


class RunView(View):
    """One run of a job; `begun_by` retried the job, `by` ended the run, for `reason`.

    `secrets` and `result_secrets` are the places whose values are not shown.
    """

    payload: JsonValue = None
    payload_version: int = 1
    secrets: tuple[str, ...] = ()
    result: JsonValue = None
    result_secrets: tuple[str, ...] = ()
    errors: tuple[ErrorView, ...] = ()
    progress: ProgressView | None = None
    began_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None
    reason: str | None = None
    begun_by: str | None = None
    by: str | None = None
    concurrency: ConcurrencyView | None = None
    queue_policy: QueuePolicyView | None = None


class JobView(RunView):
    """A job in its newest run. `logs` and `last_seq` come with one job, not with lists.

    `first_seq` is the log sequence of its first event, and with `created_at` its place in lists.
    `omitted` names the fields that were too large to be sent; the log has them.
    """

    id: str
    service: str
    type: str
    state: JobState
    context: ContextView
    created_at: datetime
    updated_at: datetime
    tries: int
    max_tries: int
    run_seq: int
    deadline: datetime | None = None
    next_attempt_at: datetime | None = None
    attempt: AttemptView | None = None
    last_error: str | None = None
    earlier_runs: tuple[RunView, ...] = ()
    logs: tuple[LogLineView, ...] = ()
    first_seq: int | None = None
    last_seq: int | None = None
    omitted: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, told: Any) -> Any:
        created = told.get("createdAt") if isinstance(told, dict) else None
        return with_missing(told, run_seq=0, **({"began_at": created} if created else {}))


class JobPlace(View):
    """A job's place in lists, which nothing changes."""

    created_at: datetime
    first_seq: int


class JobPage(Page[JobView]):
    """`next_before` is the place of the last entry, if others follow it."""

    next_before: JobPlace | None = None


class OneJob(View):
    job: JobView


class JobSecrets(View):
    """What a job was given and what it made, whole: as the log has both."""

    id: str
    service: str
    type: str
    payload: JsonValue = None
    result: JsonValue = None


class ChangedJob(View):
    """The job afterwards; `seq` is of the event, and as `minSeq` makes other reads as new."""

    job: JobView
    seq: int

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, told: Any) -> Any:
        return with_missing(told, seq=0)


class LogEntry(View):
    """One message of a job's log: `event` without its secrets, and where it left the job.

    `ignored` says why an event did not count, `undecodable` why a message is no event.
    """

    seq: int
    subject: str
    stored_at: datetime
    event: dict[str, JsonValue] | None = None
    state: JobState | None = None
    ignored: str | None = None
    undecodable: str | None = None
    omitted: tuple[str, ...] = ()


class ExplanationView(View):
    """`because` is for scripts, `sentence` and `next` are for people."""

    id: str
    service: str
    type: str
    state: JobState
    tries: int
    max_tries: int
    because: Because
    sentence: str
    next: str
    since: datetime | None = None
    until: datetime | None = None
    deadline: datetime | None = None
    details: Annotated[dict[str, JsonValue], Field(default_factory=dict)]
