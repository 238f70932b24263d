"""Errors about a job: it does not exist, exists already, or has ended without a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from trellis_jobs.errors.base import JobsError

if TYPE_CHECKING:
    from collections.abc import Mapping


class JobNotFound(JobsError):
    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"job {job_id} does not exist: it was never created, or retention removed it"
        )
        self.job_id = job_id


class JobExists(JobsError):
    def __init__(self, job_id: str) -> None:
        super().__init__(f"job {job_id} already exists")
        self.job_id = job_id


class JobIsOver(JobsError):
    def __init__(self, job_id: str, state: str) -> None:
        super().__init__(
            f"job {job_id} is already {state}: only scheduled, pending, active or retry jobs can "
            "be cancelled"
        )
        self.job_id = job_id
        self.state = state


class JobNotWaiting(JobsError):
    """The job runs or has ended, so it cannot be moved to another time.

    `shared`: it may run at any moment, because another runtime works on its queue, too.
    """

    def __init__(self, job_id: str, state: str, *, shared: bool = False) -> None:
        movable = "scheduled, pending or retry jobs"
        if shared:
            movable = "scheduled jobs of a queue that is shared with other runtimes"
        super().__init__(f"job {job_id} is {state}: only {movable} can be moved to another time")
        self.job_id = job_id
        self.state = state


class JobEnded(JobsError):
    """A job ended without a result. Each final state has a subclass, which names it `ended_in`."""

    ended_in: ClassVar[str | None] = None

    def __init__(self, job_id: str, state: str, why: str | None = None) -> None:
        super().__init__(f"job {job_id} is {state}" + (f": {why}" if why else ""))
        self.job_id = job_id
        self.state = state
        self.why = why


class JobFailed(JobEnded):
    """The handler failed with an error that is not retried."""

    ended_in: ClassVar = "failed"


class JobDead(JobEnded):
    """The job used up all its tries."""

    ended_in: ClassVar = "dead"


class JobCancelled(JobEnded):
    """The job was cancelled."""

    ended_in: ClassVar = "cancelled"


class JobExpired(JobEnded):
    """The job's deadline passed."""

    ended_in: ClassVar = "expired"


class JobSkipped(JobEnded):
    """The queue's policy replaced the job by a newer one before it ran."""

    ended_in: ClassVar = "skipped"


class JobStale(JobEnded):
    """The job's key lease expired while it ran."""

    ended_in: ClassVar = "stale"


class JobDismissed(JobEnded):
    """An operator dismissed the dead job."""

    ended_in: ClassVar = "dismissed"


class WaitTimeout(JobsError, TimeoutError):
    def __init__(self, job_id: str, seconds: float) -> None:
        super().__init__(
            f"job {job_id} did not end within {seconds:g} s; the job itself is not affected"
        )
        self.job_id = job_id


class SomeNotCreated(JobsError):
    """create_many() created only some jobs; `created` and `failed` are keyed by position."""

    def __init__(self, created: Mapping[int, str], failed: Mapping[int, JobsError]) -> None:
        first = next(iter(failed.values()))
        super().__init__(
            f"{len(failed)} of {len(created) + len(failed)} jobs were not created; first: {first}"
        )
        self.created = created
        self.failed = failed
