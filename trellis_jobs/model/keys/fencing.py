"""What becomes of a job whose slot lease is over, before its slot may go to another.

The log is told first: whatever the slot's holder wants to append then is refused (design 5).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from trellis_jobs.model.standing import Standing


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


def fence(standing: Standing | None, token: str) -> Fence:
    """A foreign runtime records no attempts: its active job is taken to run under the slot."""
    if standing is None or standing.is_over:
        return NoFence(stale=standing is not None and standing.state is JobState.STALE)
    if standing.state is not JobState.ACTIVE:
        return LeaveNote()
    if standing.owner is None or standing.owner.id == token:
        return EndAsStale()
    return NoFence()
