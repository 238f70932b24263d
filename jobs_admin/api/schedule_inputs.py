"""The inputs of the RPCs about schedules."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue, model_validator

from jobs_admin.api.inputs import (
    MAX_PAUSE,
    MAX_TICKS,
    MILLISECOND,
    Milliseconds,
    Moment,
    Nothing,
    Reason,
    Text,
    Token,
)
from trellis_jobs.model.schedules.cron import MAX_EXPRESSION_LENGTH
from trellis_jobs.model.schedules.definition import (
    DEFAULT_MAX_CATCH_UP,
    MAX_MAX_CATCH_UP,
    CatchUp,
    Overlap,
)


class ScheduleInput(Nothing):
    service: Token
    type: Token
    name: Token


class GetScheduleInput(ScheduleInput):
    """`ticks`: how many of its next ticks to return."""

    ticks: Annotated[int, Field(ge=0, le=MAX_TICKS)] = 10


class ChangeScheduleInput(ScheduleInput):
    """The audit records who changed the schedule, and why."""

    by: Text | None = None
    reason: Reason | None = None


class PutScheduleInput(ChangeScheduleInput):
    """Either `cron`, in `timeZone`, or `everyMs`."""

    cron: Annotated[str | None, Field(max_length=MAX_EXPRESSION_LENGTH)] = None
    time_zone: Text | None = None
    every_ms: Milliseconds | None = None
    payload: JsonValue = None
    jitter_ms: Milliseconds = 0
    start: Moment | None = None
    end: Moment | None = None
    catch_up: CatchUp = CatchUp.ONCE
    max_catch_up: Annotated[int, Field(ge=1, le=MAX_MAX_CATCH_UP)] = DEFAULT_MAX_CATCH_UP
    overlap: Overlap = Overlap.ALLOW

    @model_validator(mode="after")
    def _one_timing(self) -> PutScheduleInput:
        if (self.cron is None) == (self.every_ms is None):
            raise ValueError("give either cron or everyMs")
        if self.time_zone is not None and self.cron is None:
            raise ValueError("timeZone needs cron: intervals have no time zone")
        return self


class PauseScheduleInput(ChangeScheduleInput):
    """Without `until` and `durationMs`, the schedule is paused until it is resumed."""

    reason: Reason
    until: Moment | None = None
    duration_ms: Annotated[int | None, Field(ge=1, le=MAX_PAUSE // MILLISECOND)] = None

    @model_validator(mode="after")
    def _one_end(self) -> PauseScheduleInput:
        if self.until is not None and self.duration_ms is not None:
            raise ValueError("give either until or durationMs, not both")
        return self
