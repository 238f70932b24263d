"""Worker processes, as their records describe them, and directives to them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from jobs_admin.api.views.base import View
from trellis_jobs.model.worker_states import WorkerState


class WorkerQueueView(View):
    """A queue of a worker, and how many of its jobs the worker runs at once."""

    type: str
    concurrency: int


class DirectiveView(View):
    """The state that an operator wants. `epoch` counts the directives to the worker."""

    state: WorkerState
    epoch: int
    at: datetime
    by: str | None = None
    reason: str | None = None


class VerdictView(View):
    """An admin runtime has declared the worker dead, and recovers `jobs` of its jobs."""

    by: str
    at: datetime
    jobs: int
    recovered: bool


class WorkerProcessView(View):
    """A worker process and its record.

    `version` is that of the library, `app_version` that of the application. `active_job_ids` and
    `held_job_ids` (delivered, waiting for their keys) are by job type. `last_beat_at` is when the
    server stored the record. `silent`: it missed a beat. `dead_at`: if it stays silent, the admin
    runtime declares it dead at this time; absent if no admin runtime gave this answer.
    """

    service: str
    instance_id: str
    hostname: str
    pid: int
    started_at: datetime
    queues: tuple[WorkerQueueView, ...]
    concurrency: int
    state: WorkerState
    beat: int
    active_jobs: int
    active_job_ids: dict[str, tuple[str, ...]]
    held_job_ids: dict[str, tuple[str, ...]]
    labels: tuple[str, ...]
    version: str | None = None
    app_version: str | None = None
    interval_ms: int
    dead_after_ms: int
    wanted: DirectiveView | None = None
    verdict: VerdictView | None = None
    last_beat_at: datetime
    silent_for_ms: int
    silent: bool
    dead_at: datetime | None = None

    @property
    def name(self) -> str:
        """How people find the process: its host and its process id."""
        return f"{self.hostname}/{self.pid}"

    @property
    def has_ended(self) -> bool:
        return self.verdict is not None or self.state is WorkerState.TERMINATED

    def takes(self, service: str, job_type: str) -> bool:
        """Whether it has not ended and serves the queue."""
        serves = any(queue.type == job_type for queue in self.queues)
        return self.service == service and serves and not self.has_ended

    @property
    def is_idle(self) -> bool:
        return not any(map(any, (self.active_job_ids.values(), self.held_job_ids.values())))

    @property
    def epoch(self) -> int:
        return 0 if self.wanted is None else self.wanted.epoch


class DirectiveOutcome(StrEnum):
    """`unchanged`: it was directed so before and has followed. `gone`: its record was removed."""

    DIRECTED = "directed"
    UNCHANGED = "unchanged"
    REFUSED = "refused"
    GONE = "gone"


class DirectedWorker(View):
    """What became of a directive. `epoch` is that of the directive in the worker's record."""

    service: str
    instance_id: str
    outcome: DirectiveOutcome
    epoch: int | None = None
    refused_because: str | None = None


class DirectedWorkers(View):
    workers: tuple[DirectedWorker, ...]
