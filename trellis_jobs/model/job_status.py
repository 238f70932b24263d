"""The status of a job: all that the next writer must know. Each event of ours includes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.model.states import OVER, JobState
from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from datetime import datetime

    from trellis_jobs.model.attempts import Attempt


class JobStatus(Value, frozen=True):
    """`run` is the log sequence of the event that began this run, or 0 until it is stored.

    `next_attempt_at` is the time before which the job must not start. `snoozes` is how often
    handlers have snoozed the job in this run.
    """

    state: JobState
    tries: int
    max_tries: int
    run: int
    deadline: datetime | None = None
    owner: Attempt | None = None
    next_attempt_at: datetime | None = None
    snoozes: int = 0

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    @property
    def tries_exhausted(self) -> bool:
        return self.tries >= self.max_tries

    def recorded_at(self, sequence: int) -> JobStatus:
        if self.run:
            return self
        return JobStatus(
            self.state,
            self.tries,
            self.max_tries,
            sequence,
            self.deadline,
            self.owner,
            self.next_attempt_at,
            self.snoozes,
        )


class Head(Value, frozen=True):
    """A job's newest event as known to one writer. It guards that writer's next append."""

    sequence: int
    status: JobStatus
