"""Changes of a key's queue: whether a new job is admitted, rejected, coalesced or replaces one."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias, assert_never

from trellis_jobs.model.keys.fencing import StalePolicy
from trellis_jobs.model.keys.slots import enqueue
from trellis_jobs.model.values import Value, replace

if TYPE_CHECKING:
    from trellis_jobs.model.keys.state import KeyState, Waiting


class WhenFull(StrEnum):
    REJECT = "reject"
    COALESCE = "coalesce"
    REPLACE_OLDEST = "replace-oldest"


class WhenDue(StrEnum):
    """What becomes of a delayed job whose key is full when its time comes."""

    WAIT = "wait"
    WHEN_FULL = "when-full"


class Refusal(StrEnum):
    ACTIVE_LIMIT = "active-limit"
    QUEUE_DEPTH = "queue-depth"
    STALE_BLOCKED = "stale-blocked"


class Admitted(Value, frozen=True):
    state: KeyState


class Full(Value, frozen=True):
    """Why the key has no room. `limit` is the limit that `reason` names."""

    reason: Refusal
    limit: int


class Rejected(Value, frozen=True):
    state: KeyState
    why: Full


class CoalescedInto(Value, frozen=True):
    """No job is created, because the job `existing` does the same work."""

    state: KeyState
    why: Full
    existing: str


class Replaced(Value, frozen=True):
    """The new job replaces the oldest waiting job. A running job is never replaced."""

    state: KeyState
    replaced: Waiting


Admission: TypeAlias = Admitted | Rejected | CoalescedInto | Replaced


def admit(
    state: KeyState,
    waiting: Waiting,
    when_full: WhenFull,
    stale_policy: StalePolicy = StalePolicy.FAIL_STALE,
) -> Admission:
    """Admit a job to the queue of its key, or apply the policy for a full queue.

    Every admitted job enters the queue, so free slots count as room in it. A job that is already
    queued or active was admitted by an earlier try of the same request.
    """
    if state.is_queued(waiting.job_id) or state.slot_of(waiting.job_id) is not None:
        return Admitted(state)
    if len(state.queued) < state.max_queued + state.free:
        return Admitted(enqueue(state, waiting))
    why = _full(state, waiting, stale_policy)
    match when_full:
        case WhenFull.REJECT:
            return Rejected(state, why)
        case WhenFull.COALESCE:
            return CoalescedInto(state, why, oldest(state))
        case WhenFull.REPLACE_OLDEST:
            return _replace_oldest(state, waiting) if state.queued else Rejected(state, why)
        case _:
            assert_never(when_full)


def oldest(full: KeyState) -> str:
    """The job to which a full key refers: the first waiting one, else the first running one."""
    return full.queued[0].job_id if full.queued else full.active[0].job_id


def _full(state: KeyState, waiting: Waiting, stale_policy: StalePolicy) -> Full:
    # The wall clock is good enough here: this chooses the reason shown, not the outcome.
    overdue = any(slot.expires_at <= waiting.created_at for slot in state.active)
    if stale_policy is StalePolicy.BLOCK and overdue:
        return Full(Refusal.STALE_BLOCKED, state.max_active)
    if state.max_queued == 0:
        return Full(Refusal.ACTIVE_LIMIT, state.max_active)
    return Full(Refusal.QUEUE_DEPTH, state.max_queued)


def _replace_oldest(state: KeyState, waiting: Waiting) -> Replaced:
    first, *others = state.queued
    return Replaced(enqueue(replace(state, queued=tuple(others)), waiting), first)
