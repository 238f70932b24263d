"""Histograms of durations: the buckets, and how long an attempt waited and ran.

All times are those at which the server stored events, as in a job's timeline.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from trellis_jobs.model.events import Event
    from trellis_jobs.model.job_status import JobStatus

_MILLISECOND: Final = 1000
_DOUBLINGS: Final = 28
# 1, 1.5, 2, 3, 4, 6, 8, 12, … milliseconds, up to two days, in microseconds. Bucket 0 is below the
# first bound, bucket n from bound n - 1 to below bound n, and the last one has no end.
BOUNDS: Final = tuple(
    sorted(
        factor << power
        for power in range(_DOUBLINGS)
        for factor in (_MILLISECOND, 3 * _MILLISECOND // 2)
    )
)
_MICROSECOND: Final = timedelta(microseconds=1)
_ACTIVE: Final = JobState.ACTIVE
_WAITING: Final = frozenset({JobState.PENDING, JobState.RETRY})


class Timed(StrEnum):
    """WAIT: from when a try was due until it started. RUN: from its start until its outcome."""

    WAIT = "wait"
    RUN = "run"


def bucket_of(microseconds: int) -> int:
    return bisect_right(BOUNDS, microseconds)


def phase_ended(before: JobState | None, after: JobState) -> Timed | None:
    """What the change to another state ends: an attempt's wait, its run, or neither."""
    if before is _ACTIVE:
        return Timed.RUN
    return Timed.WAIT if after is _ACTIVE and before in _WAITING else None


def due_after(status: JobStatus, event: Event, stored_at: int) -> int | None:
    """When the next try is due, in microseconds of the server's clock. None if it is due now."""
    due = status.next_attempt_at
    return None if due is None or due <= event.at else stored_at + (due - event.at) // _MICROSECOND
