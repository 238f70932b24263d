"""The states of a job, and which of them are final for workers."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class JobState(StrEnum):
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


LIVE: Final = frozenset({JobState.PENDING, JobState.ACTIVE, JobState.RETRY})
OVER: Final = frozenset(JobState) - LIVE
