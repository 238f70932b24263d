"""The inputs of the RPCs about the past of queues and jobs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from jobs_admin.api.inputs import MAX_SEQUENCE, Moment, Nothing, ReadInput, Token
from jobs_admin.api.views.history import PastPart
from trellis_jobs.model.states import JobState

MAX_HISTORY_STEPS = 360
MAX_PAST_JOBS = 100
_HOUR_MINUTES = 60


class HistoryInput(ReadInput):
    """From `since` to `until`, or now, in steps of one minute or of whole hours.

    `perQueue`: also for each queue.
    """

    since: Moment
    until: Moment | None = None
    step_minutes: Annotated[int, Field(ge=1, le=30 * 24 * _HOUR_MINUTES)] = _HOUR_MINUTES
    service: Token | None = None
    type: Token | None = None
    per_queue: bool = False

    @model_validator(mode="after")
    def _is_step(self) -> HistoryInput:
        if self.step_minutes != 1 and self.step_minutes % _HOUR_MINUTES:
            raise ValueError("stepMinutes must be 1 or whole hours: 60, 120, …")
        return self


class StatsAtInput(ReadInput):
    at: Moment
    service: Token | None = None
    type: Token | None = None


class PastAfter(Nothing):
    """`nextAfter` of the reply before."""

    part: PastPart
    stored_at: Moment
    first_seq: Annotated[int, Field(ge=0, le=MAX_SEQUENCE)]


class ListAtInput(StatsAtInput):
    """Jobs that were in one of these states at that moment, or all jobs."""

    state: Annotated[list[JobState] | None, Field(max_length=len(JobState))] = None
    limit: Annotated[int, Field(ge=1, le=MAX_PAST_JOBS)] = 50
    after: PastAfter | None = None
