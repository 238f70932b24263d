"""Bulk operations, which change many jobs."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

from pydantic import ConfigDict, Field

from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.views.base import View
from trellis_jobs.model.states import JobState

_ID_PREFIX: Final = "op-"


def operation_id(unique: str) -> str:
    """The id of an operation. Its prefix tells it from the id of a request."""
    return f"{_ID_PREFIX}{unique}"


def is_operation_id(request: str | None) -> bool:
    return request is not None and request.startswith(_ID_PREFIX)


class OperationVerb(StrEnum):
    """`retry` runs failed and dead jobs again, `replay` only dead ones.

    `reschedule` moves jobs that wait to another time, `run-now` lets those run that are not to run
    yet.
    """

    RETRY = "retry"
    REPLAY = "replay"
    CANCEL = "cancel"
    DISMISS = "dismiss"
    RESCHEDULE = "reschedule"
    RUN_NOW = "run-now"


class OperationState(StrEnum):
    """`stopping`: a stop was requested, and the daemon that runs it has not stopped yet."""

    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    DONE = "done"
    FAILED = "failed"


class OperationFilter(JobFilter):
    """The filter of an operation: it changes the jobs that matched when it was started."""

    model_config = ConfigDict(extra="ignore")


class RefusalView(View):
    """A job that the operation could not change, and why."""

    id: str
    service: str
    type: str
    reason: str


class OperationView(View):
    """`total` is how many jobs matched when the operation was started.

    `done` is how many were changed. `refused` counts the others by reason, and `refusals` lists
    some of them. `owner` is the daemon that runs the operation, None while no daemon does. `error`
    is why the operation failed. `run_at` is the time to which jobs are moved.
    """

    id: str
    verb: OperationVerb
    state: OperationState
    filter: OperationFilter
    by: str
    reason: str | None = None
    rate: float | None = None
    run_at: datetime | None = None
    total: int
    done: int = 0
    refused: Annotated[dict[str, int], Field(default_factory=dict)]
    refusals: tuple[RefusalView, ...] = ()
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None = None
    stopped_by: str | None = None
    owner: str | None = None
    error: str | None = None

    @property
    def is_over(self) -> bool:
        return self.state not in (OperationState.RUNNING, OperationState.STOPPING)

    @property
    def settled(self) -> int:
        """How many jobs are done or refused."""
        return self.done + sum(self.refused.values())


class MatchedJobs(View):
    """The number of matching jobs of one queue in one state."""

    service: str
    type: str
    state: JobState
    jobs: int


class PreviewView(View):
    """The jobs that an operation would change, and those that it would refuse by state."""

    count: int
    jobs: tuple[MatchedJobs, ...] = ()
    refused: tuple[MatchedJobs, ...] = ()


class Operated(View):
    """`operation` is missing in the reply to a dry run."""

    preview: PreviewView
    operation: OperationView | None = None


class OneOperation(View):
    operation: OperationView
