"""The inputs of all RPCs, validated before anything is read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    model_validator,
)
from pydantic.alias_generators import to_camel

from jobs_admin.api.job_filter import FilterFields, JobFilter
from jobs_admin.api.views.jobs import JobCursor
from jobs_admin.api.views.operations import OperationVerb
from jobs_admin.api.views.suggestions import SuggestedField
from jobs_admin.api.worker_filter import WorkerFilter
from trellis_jobs.model.durations import LONGEST
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.states import JobState
from trellis_jobs.model.worker_states import WorkerState

MAX_PAGE_SIZE = 500
_TOKEN_PATTERN = r"^[A-Za-z0-9_-]{1,128}$"  # noqa: S105 - a token of a subject
MAX_SEQUENCE = 2**63 - 1
MILLISECOND = timedelta(milliseconds=1)
MAX_PAUSE = timedelta(days=3650)
MAX_TICKS = 100
MAX_TEMPLATES = 50

_JOB_PATTERN = r"^[A-Za-z0-9_-]{1,128}(/[A-Za-z0-9_-]{1,128}){2}$"
_GROUP_PATTERN = r"^[0-9a-f]{16}$"

Token = Annotated[str, Field(pattern=_TOKEN_PATTERN)]
JobName = Annotated[str, Field(pattern=_JOB_PATTERN)]
Text = Annotated[str, Field(min_length=1, max_length=500)]
# Why an operator changes something.
Reason = Annotated[str, Field(max_length=4_000)]
Milliseconds = Annotated[int, Field(ge=0, le=LONGEST // MILLISECOND)]
# Keys are made from payloads; a key that is longer than this can be named by its hash.
Key = Annotated[str, Field(min_length=1, max_length=32_000)]


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("the time is not within the years 1 to 9999 in UTC") from None


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]


def _as_in_events(value: int) -> int | float:
    """Numbers beyond 64 bits become floats when an event is decoded."""
    return value if -(2**63) <= value < 2**64 else float(value)


Number = Annotated[int, Field(ge=-(10**300), le=10**300), AfterValidator(_as_in_events)]
PayloadValue = str | bool | Number | float


class Nothing(BaseModel):
    """Unknown fields are errors: a misspelt filter must not match every job."""

    model_config = ConfigDict(
        extra="forbid",
        strict=False,
        alias_generator=to_camel,
        populate_by_name=False,
        defer_build=True,  # a command sends few of the inputs
    )


class ReadInput(Nothing):
    """`minSeq`: wait until the projection has reached this log sequence (design D17)."""

    min_seq: Annotated[int, Field(ge=0, le=MAX_SEQUENCE)] = 0


class PageInput(ReadInput):
    offset: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)]


class ChangesInput(Nothing):
    """The reply comes when there are changes after `afterSeq`, or when `waitMs` have passed."""

    after_seq: Annotated[int, Field(ge=0, le=MAX_SEQUENCE)]
    wait_ms: Annotated[int, Field(ge=0, le=5_000)] = 0


class TailInput(Nothing):
    """The newest events after `afterSeq`; without it, the newest ones."""

    after_seq: Annotated[int | None, Field(ge=0, le=MAX_SEQUENCE)] = None
    service: Token | None = None
    type: Token | None = None
    kind: EventKind | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)] = 100


class Before(Nothing):
    """A job's position in lists: the page begins after that job, even if it has been removed."""

    created_at: Moment
    first_seq: Annotated[int, Field(ge=0, le=MAX_SEQUENCE)]


class JobFilterInput(FilterFields, ReadInput):
    """The fields of a filter with the values that are accepted."""

    service: Token | None = None
    type: Token | None = None
    since: Moment | None = None
    until: Moment | None = None
    key: Key | None = None
    id_prefix: Token | None = None
    error: Text | None = None
    app_version: Text | None = None
    request_id: Text | None = None
    trace_id: Annotated[str | None, Field(pattern=r"^[0-9a-f]{32}$")] = None
    schedule: Token | None = None
    payload: Annotated[dict[Text, PayloadValue] | None, Field(max_length=8)] = None
    error_group: Annotated[str | None, Field(pattern=_GROUP_PATTERN)] = None
    jobs: Annotated[list[JobName] | None, Field(max_length=MAX_PAGE_SIZE)] = None

    def to_filter(self, state: list[JobState] | None) -> JobFilter:
        fields = {name: getattr(self, name) for name in FilterFields.model_fields}
        return JobFilter(**fields, state=state)


class FilterInput(JobFilterInput, PageInput):
    """A page of the jobs that match."""


class DeadInput(FilterInput):
    before: Before | None = None

    @model_validator(mode="after")
    def _one_way_to_page(self) -> DeadInput:
        if self.before is not None and self.offset:
            raise ValueError("use either `offset` or `before`, not both")
        return self

    @property
    def cursor(self) -> JobCursor | None:
        before = self.before
        return (
            JobCursor(created_at=before.created_at, first_seq=before.first_seq) if before else None
        )


class ListInput(DeadInput):
    state: Annotated[list[JobState] | None, Field(max_length=len(JobState))] = None


ErrorState = Literal[JobState.FAILED, JobState.RETRY, JobState.DEAD]


class GroupErrorsInput(FilterInput):
    """Without `state`, jobs in all of these states are grouped."""

    state: Annotated[list[ErrorState], Field(min_length=1, max_length=3)] = [
        JobState.FAILED,
        JobState.RETRY,
        JobState.DEAD,
    ]


class SuggestInput(ReadInput):
    """`service` and `type` restrict the suggestions of states, types and payload fields."""

    field: SuggestedField
    prefix: Annotated[str, Field(max_length=500)] = ""
    service: Token | None = None
    type: Token | None = None
    limit: Annotated[int, Field(ge=1, le=100)] = 20


class JobInput(ReadInput):
    """`service` and `type` are needed only when several queues have a job with this id."""

    id: Token
    service: Token | None = None
    type: Token | None = None


class StatsInput(ReadInput):
    """`windowMinutes`: rates are computed over this many whole minutes before the current one."""

    service: Token | None = None
    type: Token | None = None
    window_minutes: Annotated[int, Field(ge=1, le=1_440)] = 5


class EventsInput(JobInput):
    """A page of a job's log, from an offset, or after the sequence `afterSeq`.

    `notes`: with progress, log lines and heartbeats, of which a job may have thousands.
    """

    after_seq: Annotated[int, Field(ge=0, le=MAX_SEQUENCE)] = 0
    notes: bool = True
    offset: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)] = 100


class ActionInput(JobInput):
    """The event records who acted, and why."""

    by: Text | None = None
    reason: Reason | None = None


class SecretsInput(JobInput):
    """The audit records who has seen the secrets, and why."""

    by: Text | None = None
    reason: Reason | None = None


class AuditInput(PageInput):
    """`since` and `until` compare with the server's time when an action was stored."""

    by: Text | None = None
    verb: Text | None = None
    target: Text | None = None
    service: Token | None = None
    type: Token | None = None
    since: Moment | None = None
    until: Moment | None = None


class RescheduleInput(ActionInput):
    """A time in the past means that the job is to run at once."""

    run_at: Moment


class KeyInput(ReadInput):
    service: Token
    type: Token
    key: Key


class QueuePageInput(PageInput):
    """A page over all queues, or only those of a service or a type."""

    service: Token | None = None
    type: Token | None = None


class QueuesInput(QueuePageInput):
    """`withEnded`: also queues that no worker was ever started for and whose jobs have ended."""

    with_ended: bool = False


class QueueInput(Nothing):
    """A change of a queue. The audit records who made it, and why."""

    service: Token
    type: Token
    by: Text | None = None
    reason: Reason | None = None


class PauseInput(QueueInput):
    """Without `durationMs`, the queue is paused until it is resumed."""

    reason: Reason
    duration_ms: Annotated[int | None, Field(ge=1, le=MAX_PAUSE // MILLISECOND)] = None


class ContractInput(Nothing):
    service: Token
    type: Token


class RecentPayloadsInput(ReadInput):
    service: Token
    type: Token
    limit: Annotated[int, Field(ge=1, le=MAX_TEMPLATES)] = 10


class CreateInput(QueueInput):
    """A job for any queue. `dryRun` checks it, and says what would happen.

    `payloadVersion` is that of a payload that was taken from another job: the request is refused if
    the queue takes another version. `runAt` or `delayMs` is when the job may run. `maxTries`,
    `timeoutMs` and `visibilityMs` replace the options of the queue. The job records `by` and
    `reason`.
    """

    payload: JsonValue = None
    payload_version: Annotated[int | None, Field(ge=1, le=MAX_SEQUENCE)] = None
    id: Token | None = None
    deadline: Moment | None = None
    run_at: Moment | None = None
    delay_ms: Milliseconds | None = None
    max_tries: Annotated[int | None, Field(ge=-MAX_SEQUENCE, le=MAX_SEQUENCE)] = None
    timeout_ms: Milliseconds | None = None
    visibility_ms: Milliseconds | None = None
    dry_run: bool = False


class WorkerFilterInput(Nothing):
    """`version` is that of the application. A worker matches if it has all that is given."""

    service: Token | None = None
    labels: Annotated[list[Text], Field(max_length=20)] = []
    host: Text | None = None
    version: Text | None = None

    def to_filter(self, id_prefix: str | None = None) -> WorkerFilter:
        return WorkerFilter(
            service=self.service,
            labels=tuple(self.labels),
            host=self.host,
            version=self.version,
            id_prefix=id_prefix,
        )


class WorkersInput(WorkerFilterInput, PageInput):
    id_prefix: Token | None = None


class WorkerInput(Nothing):
    service: Token
    instance_id: Token


class DirectInput(WorkerFilterInput):
    """Which workers: either `workers` or a filter. The record of a worker says who and why."""

    state: Literal[WorkerState.RUNNING, WorkerState.QUIET, WorkerState.TERMINATE]
    workers: Annotated[list[WorkerInput] | None, Field(min_length=1, max_length=500)] = None
    by: Text | None = None
    reason: Reason | None = None

    @model_validator(mode="after")
    def _one_selection(self) -> DirectInput:
        if (self.workers is None) == self.to_filter().is_empty:
            raise ValueError("name the workers, or give a filter, and not both")
        return self


class ReleaseInput(KeyInput):
    job_id: Token
    by: Text | None = None
    reason: Reason | None = None


class OperateInput(JobFilterInput):
    """`rate` is the maximum number of jobs per second. `dryRun` only counts what would change.

    `runAt` is the time to which `reschedule` moves the jobs.
    """

    verb: OperationVerb
    run_at: Moment | None = None
    state: Annotated[list[JobState] | None, Field(max_length=len(JobState))] = None
    by: Text | None = None
    reason: Reason | None = None
    rate: Annotated[float | None, Field(gt=0, le=1_000_000, allow_inf_nan=False)] = None
    dry_run: bool = False

    @model_validator(mode="after")
    def _has_time(self) -> OperateInput:
        is_moved = self.verb is OperationVerb.RESCHEDULE
        if is_moved and self.run_at is None:
            raise ValueError("reschedule needs runAt, the time to which the jobs are moved")
        if self.run_at is not None and not is_moved:
            raise ValueError(f"{self.verb} takes no runAt")
        return self


class OperationInput(Nothing):
    id: Token


class StopInput(OperationInput):
    """The audit records who stopped the operation, and why."""

    by: Text | None = None
    reason: Reason | None = None
