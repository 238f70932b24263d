"""What becomes of a job whose slot lease is over, before its slot may go to another.

The log is told first: whatever the slot's holder wants to append then is refused (design 5).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from trellis_jobs.model.job_status import JobStatus


class StalePolicy(StrEnum):
    """What a lease that is over means: its job is stale, or the key waits for somebody's word."""

    FAIL_STALE = "fail-stale"
    BLOCK = "block"


class EndAsStale(Value, frozen=True):
    """The job runs under this slot, or would say so: end it."""


class LeaveNote(Value, frozen=True):
    """The slot was taken for a start that is not in the log: a note makes that start fail."""


class NoFence(Value, frozen=True):
    """Nothing the holder may still append depends on the slot; `stale`: the job ended so."""

    stale: bool = False


Fence: TypeAlias = EndAsStale | LeaveNote | NoFence


def fence(status: JobStatus | None, token: str) -> Fence:
    """A foreign runtime records no attempts: its active job is taken to run under the slot."""
    if status is None or status.is_over:
        return NoFence(stale=status is not None and status.state is JobState.STALE)
    if status.state is not JobState.ACTIVE:
        return LeaveNote()
    if status.owner is None or status.owner.id == token:
        return EndAsStale()
    return NoFence()
