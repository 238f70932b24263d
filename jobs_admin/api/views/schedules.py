"""Schedules: what they do, when they create jobs next, and what became of their last ticks."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field, JsonValue

from jobs_admin.api.views.base import View
from trellis_jobs.model.schedules.definition import CatchUp, Overlap
from trellis_jobs.model.schedules.record import Origin, SkipReason
from trellis_jobs.model.states import JobState


class ScheduleDefinitionView(View):
    """`cron` and `time_zone`, or `every_ms`. Fields that are left out have their defaults.

    `secrets` are the paths of the payload whose values are redacted.
    """

    cron: str | None = None
    time_zone: str | None = None
    every_ms: int | None = None
    jitter_ms: int | None = None
    start: datetime | None = None
    end: datetime | None = None
    catch_up: CatchUp
    max_catch_up: int | None = None
    overlap: Overlap
    payload_version: int | None = None
    secrets: tuple[str, ...] = ()


class SchedulePauseView(View):
    """Without `until`, the schedule is paused until it is resumed."""

    since: datetime
    until: datetime | None = None
    by: str | None = None
    reason: str | None = None


class TickView(View):
    """A tick, and when its job is created: at the tick, or later because of the jitter."""

    tick: datetime
    at: datetime


class ScheduleRunView(View):
    """What became of a tick, or of `count` ticks up to this one; `at` is when it was decided.

    A tick has the job `job_id`, or it was `skipped`. `refused` is why its job could not be created.
    `triggered`: someone requested the job, and `tick` is when. `waits`: the job is not created yet.
    `state` is that of the job, if the projection has the job.
    """

    tick: datetime
    at: datetime
    job_id: str | None = None
    skipped: SkipReason | None = None
    count: int = 1
    refused: str | None = None
    triggered: bool = False
    by: str | None = None
    waits: bool = False
    state: JobState | None = None


class ScheduleView(View):
    """A schedule. If its record cannot be read, `problem` says why, and most fields are missing.

    `origin` says whether the contract declares it, or someone made it at run time; then `by` is who
    changed it last. `description` says in words when it creates jobs. `next` is missing if it has
    no more ticks, or if it is paused until it is resumed. `due_since`: a tick was due at this time,
    or a job should have been created, and no worker has done it; `overdue`: for too long.
    `queue_unknown`: workers of the service run, and the code of none of them declares its queue.
    """

    service: str
    type: str
    name: str
    problem: str | None = None
    origin: Origin | None = None
    by: str | None = None
    definition: ScheduleDefinitionView | None = None
    description: str | None = None
    paused: SchedulePauseView | None = None
    next: TickView | None = None
    last_run: ScheduleRunView | None = None
    due_since: datetime | None = None
    overdue: bool = False
    queue_unknown: bool = False
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def address(self) -> str:
        return f"{self.service}/{self.type}/{self.name}"


class ScheduleDetailView(ScheduleView):
    """A schedule with its next ticks, and with its last runs, oldest first.

    `on_missed_ticks` says in words what happens to ticks that were missed, and `on_overlap` what a
    tick does if the previous job has not ended. The ticks of a paused schedule are those after the
    pause, or those that it would have. `omitted` names fields that were too large to send.
    """

    payload: JsonValue = None
    on_missed_ticks: str | None = None
    on_overlap: str | None = None
    next_ticks: tuple[TickView, ...] = ()
    runs: tuple[ScheduleRunView, ...] = ()
    omitted: tuple[str, ...] = ()


class OneSchedule(View):
    schedule: ScheduleDetailView


class ScheduleOutcome(StrEnum):
    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


class ChangedSchedule(View):
    """The schedule after the request, and what the request did.

    `payload_checked` is False if the queue's contract has no schema for payloads.
    """

    schedule: ScheduleDetailView
    outcome: ScheduleOutcome
    payload_checked: bool | None = None


class TriggeredSchedule(View):
    """The job `job_id` is recorded with the schedule, and a worker of its service creates it.

    `workers` is the number of workers of the service that run, if it is known.
    """

    service: str
    type: str
    name: str
    job_id: str
    workers: Annotated[int | None, Field(ge=0)] = None


class DeletedSchedule(View):
    """Jobs that the schedule has created are not changed."""

    service: str
    type: str
    name: str
