"""Fence the holder of an expired slot lease before its slot goes to another job.

An event appended to the job's log makes the server refuse what the holder appends later (design 5).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from trellis_jobs.model.job_status import JobStatus


class StalePolicy(StrEnum):
    """On an expired lease, end its job as stale, or block the key until an operator acts."""

    FAIL_STALE = "fail-stale"
    BLOCK = "block"


class EndAsStale(Value, frozen=True):
    """The job runs under this slot: end it as stale."""


class LeaveNote(Value, frozen=True):
    """The slot was acquired, but no start is in the log: append a note, which refuses the start."""


class NoFence(Value, frozen=True):
    """Nothing the holder may still append depends on the slot. `stale`: the job ended as stale."""

    stale: bool = False


Fence: TypeAlias = EndAsStale | LeaveNote | NoFence


def fence(status: JobStatus | None, token: str) -> Fence:
    """Decide how to fence the holder. It owns an active job without an owner (foreign runtime)."""
    if status is None or status.is_over:
        return NoFence(stale=status is not None and status.state is JobState.STALE)
    if status.state is not JobState.ACTIVE:
        return LeaveNote()
    if status.owner is None or status.owner.id == token:
        return EndAsStale()
    return NoFence()
