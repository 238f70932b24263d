"""What requests may say: checked before anything is looked up."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    model_validator,
)

from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.views.jobs import JobPlace
from jobs_admin.api.views.operations import OperationVerb
from trellis_jobs.model.states import JobState

MOST_ENTRIES = 500
_ONE_TOKEN = r"^[A-Za-z0-9_-]{1,128}$"  # noqa: S105 - of a subject
_LARGEST_SEQUENCE = 2**63 - 1

Token = Annotated[str, Field(pattern=_ONE_TOKEN)]
Text = Annotated[str, Field(min_length=1, max_length=500)]
# As jobs make them of their payloads; one that is longer still is asked for by its hash.
Key = Annotated[str, Field(min_length=1, max_length=32_000)]


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("this is not within the years 1 to 9999, in UTC") from None


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]


def _as_in_events(value: int) -> int | float:
    """Numbers beyond 64 bits are floats once an event was read."""
    return value if -(2**63) <= value < 2**64 else float(value)


Number = Annotated[int, Field(ge=-(10**300), le=10**300), AfterValidator(_as_in_events)]
PayloadValue = str | bool | Number | float


class Nothing(BaseModel):
    """A field that is not known is an error: a filter misspelt must not match everything."""

    model_config = ConfigDict(extra="forbid", strict=False)


class ReadInput(Nothing):
    """`minSeq`: answer only once the projection has taken in the log up to there (design D17)."""

    min_seq: Annotated[int, Field(alias="minSeq", ge=0, le=_LARGEST_SEQUENCE)] = 0


class PageInput(ReadInput):
    offset: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    limit: Annotated[int, Field(ge=1, le=MOST_ENTRIES)]


class Before(Nothing):
    """A job's place in lists: with it a page begins after that job, whatever became of it."""

    created_at: Annotated[Moment, Field(alias="createdAt")]
    first_seq: Annotated[int, Field(alias="firstSeq", ge=0, le=_LARGEST_SEQUENCE)]


class WhichJobs(ReadInput):
    """Filters; what is left out does not narrow."""

    service: Token | None = None
    type: Token | None = None
    since: Moment | None = None
    until: Moment | None = None
    key: Key | None = None
    id_prefix: Annotated[str | None, Field(alias="idPrefix", pattern=_ONE_TOKEN)] = None
    error: Text | None = None
    payload: Annotated[dict[Text, PayloadValue] | None, Field(max_length=8)] = None

    def wanted(self, states: list[JobState] | None) -> JobFilter:
        return JobFilter(
            service=self.service,
            type=self.type,
            states=states,
            since=self.since,
            until=self.until,
            key=self.key,
            id_prefix=self.id_prefix,
            error=self.error,
            payload=self.payload,
        )


class FilterInput(WhichJobs, PageInput):
    """A page of the jobs that the filters leave."""


class DeadInput(FilterInput):
    before: Before | None = None

    @model_validator(mode="after")
    def _one_way_to_page(self) -> DeadInput:
        if self.before is not None and self.offset:
            raise ValueError("a page begins at an offset or before a place, not both")
        return self

    @property
    def place(self) -> JobPlace | None:
        told = self.before
        return JobPlace(created_at=told.created_at, first_seq=told.first_seq) if told else None


class ListInput(DeadInput):
    state: Annotated[list[JobState] | None, Field(max_length=len(JobState))] = None


class JobInput(ReadInput):
    """`service` and `type` are needed only where several queues have a job with the same id."""

    id: Token
    service: Token | None = None
    type: Token | None = None


class StatsInput(ReadInput):
    """`windowMinutes`: the rates are of so many whole minutes before this one."""

    service: Token | None = None
    type: Token | None = None
    window_minutes: Annotated[int, Field(alias="windowMinutes", ge=1, le=1_440)] = 5


class EventsInput(JobInput):
    offset: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    limit: Annotated[int, Field(ge=1, le=MOST_ENTRIES)] = 100


class ActionInput(JobInput):
    """Who does it and why is recorded in the event."""

    by: Text | None = None
    reason: Annotated[str | None, Field(max_length=4_000)] = None


class KeyInput(ReadInput):
    service: Token
    type: Token
    key: Key


class QueuePageInput(PageInput):
    """Of all queues, or only those of a service, or of a type."""

    service: Token | None = None
    type: Token | None = None


class ReleaseInput(KeyInput):
    job_id: Annotated[str, Field(alias="jobId", pattern=_ONE_TOKEN)]
    by: Text | None = None
    reason: Annotated[str | None, Field(max_length=4_000)] = None


class OperateInput(WhichJobs):
    """`rate`: at most so many jobs a second. `dryRun`: only tell what would be changed."""

    verb: OperationVerb
    state: Annotated[list[JobState] | None, Field(max_length=len(JobState))] = None
    by: Text | None = None
    reason: Annotated[str | None, Field(max_length=4_000)] = None
    rate: Annotated[float | None, Field(gt=0, le=1_000_000, allow_inf_nan=False)] = None
    dry_run: Annotated[bool, Field(alias="dryRun")] = False


class OperationInput(Nothing):
    id: Token


class StopInput(OperationInput):
    by: Text | None = None
