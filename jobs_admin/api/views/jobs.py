"""Jobs, their logs, and explanations of their states."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, JsonValue, model_validator

from jobs_admin.api.reasons import Because
from jobs_admin.api.views.base import Page, View, with_defaults
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
    """`run_seq` identifies the run that wrote the line."""

    timestamp: datetime
    level: str
    message: str
    run_seq: int

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        return with_defaults(data, run_seq=0)


class AttemptView(View):
    """The worker that runs the job, and the delivery of the work message that started it."""

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
    """One run of a job. `begun_by` started it by a retry; `by` ended it, with `reason`.

    `secrets` and `result_secrets` are the paths whose values are redacted. `timeout_ms` and
    `visibility_ms` are the job's own limits, which replace those of its queue. `instance_id` and
    `app_version` are those of the worker that started the newest try. `snoozed_until` is set while
    the job is snoozed; `snooze_reason` is that of the newest snooze. `schedule` is the name of the
    schedule that created the job; then `run_at` is its tick, or when someone triggered it.
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
    instance_id: str | None = None
    app_version: str | None = None
    run_at: datetime | None = None
    schedule: str | None = None
    snoozed_until: datetime | None = None
    snooze_reason: str | None = None
    completed_at: datetime | None = None
    reason: str | None = None
    begun_by: str | None = None
    by: str | None = None
    timeout_ms: int | None = None
    visibility_ms: int | None = None
    concurrency: ConcurrencyView | None = None
    queue_policy: QueuePolicyView | None = None


class JobView(RunView):
    """A job in its newest run. Lists do not contain `logs` and `last_seq`.

    `first_seq` is the log sequence of the job's first event; together with `created_at` it is the
    job's position in lists. `omitted` names fields that were too large to send: the log has them.
    `snoozes` is how often handlers have snoozed the job in this run. `created_by` created the job,
    for `created_reason`; both are missing if its service did.
    """

    id: str
    service: str
    type: str
    state: JobState
    context: ContextView
    created_at: datetime
    created_by: str | None = None
    created_reason: str | None = None
    updated_at: datetime
    tries: int
    max_tries: int
    snoozes: int = 0
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
    def _complete(cls, data: Any) -> Any:
        created = data.get("createdAt") if isinstance(data, dict) else None
        return with_defaults(data, run_seq=0, **({"began_at": created} if created else {}))


class JobCursor(View):
    """A job's position in lists, which never changes."""

    created_at: datetime
    first_seq: int


class JobPage(Page[JobView]):
    """`next_before` is the cursor of the last entry, if there are more."""

    next_before: JobCursor | None = None


class OneJob(View):
    job: JobView


class JobSecrets(View):
    """The payload and result of a job without redaction, as in the log."""

    id: str
    service: str
    type: str
    payload: JsonValue = None
    result: JsonValue = None

    def encode(self) -> bytes:
        """A payload of null is sent."""
        return self.model_dump_json(
            by_alias=True, exclude={"result"} if self.result is None else None
        ).encode()


class ChangedJob(View):
    """The job after the change. Pass `seq` as `minSeq` to other reads to see the change there."""

    job: JobView
    seq: int

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        return with_defaults(data, seq=0)


class LogEntry(View):
    """One message of a job's log: `event` without secrets, and the job's `state` after it.

    `ignored` is why an event was ignored; `undecodable` is why a message is not an event. `omitted`
    names what was too large to send: the `payload` or `result` of the event, or all of the `event`.
    """

    seq: int
    subject: str
    stored_at: datetime
    event: dict[str, Any] | None = None
    state: JobState | None = None
    ignored: str | None = None
    undecodable: str | None = None
    omitted: tuple[str, ...] = ()


class ExplanationView(View):
    """`because` is a code for scripts; `sentence` and `next` are for people."""

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
    details: Annotated[dict[str, Any], Field(default_factory=dict)]
