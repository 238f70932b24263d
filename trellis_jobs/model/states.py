"""The states of a job, and which of them are final for workers."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class JobState(StrEnum):
    """SCHEDULED: the job waits for its time, and no worker can receive it yet."""

    SCHEDULED = "scheduled"
    PENDING = "pending"
    ACTIVE = "active"
    RETRY = "retry"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    SKIPPED = "skipped"
    STALE = "stale"
    DEAD = "dead"
    DISMISSED = "dismissed"


# A worker can receive the job, or has received it.
ENQUEUED: Final = frozenset({JobState.PENDING, JobState.ACTIVE, JobState.RETRY})
LIVE: Final = ENQUEUED | {JobState.SCHEDULED}
OVER: Final = frozenset(JobState) - LIVE
