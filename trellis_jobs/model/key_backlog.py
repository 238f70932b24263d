"""Moves on the waiting side of a key: what becomes of a job that asks to be let in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias, assert_never

from trellis_jobs.model.key_slots import enqueue

if TYPE_CHECKING:
    from trellis_jobs.model.key_state import KeyState, Waiting


class WhenFull(StrEnum):
    REJECT = "reject"
    COALESCE = "coalesce"
    REPLACE_OLDEST = "replace-oldest"


class Refusal(StrEnum):
    ACTIVE_LIMIT = "active-limit"
    QUEUE_DEPTH = "queue-depth"
    STALE_BLOCKED = "stale-blocked"


@dataclass(frozen=True, slots=True)
class Admitted:
    state: KeyState


@dataclass(frozen=True, slots=True)
class Rejected:
    state: KeyState
    reason: Refusal
    limit: int


@dataclass(frozen=True, slots=True)
class Coalesced:
    """No new job: this one does the work already, or will."""

    state: KeyState
    existing: str


@dataclass(frozen=True, slots=True)
class Replaced:
    """The new job takes the place of the oldest that waits; a running one is never replaced."""

    state: KeyState
    replaced: Waiting


Admission: TypeAlias = Admitted | Rejected | Coalesced | Replaced


def admit(state: KeyState, waiting: Waiting, when_full: WhenFull) -> Admission:
    """Every accepted job passes through the queue, so free slots count as room in it.

    A job that is in already was admitted by an earlier try of the same request.
    """
    if state.is_queued(waiting.job_id) or state.slot_of(waiting.job_id) is not None:
        return Admitted(state)
    if len(state.queued) < state.max_queued + state.free:
        return Admitted(enqueue(state, waiting))
    match when_full:
        case WhenFull.REJECT:
            return _reject(state)
        case WhenFull.COALESCE:
            return _coalesce(state)
        case WhenFull.REPLACE_OLDEST:
            return _replace_oldest(state, waiting)
        case _:
            assert_never(when_full)


def _reject(state: KeyState) -> Rejected:
    if state.free == 0:
        return Rejected(state, Refusal.ACTIVE_LIMIT, state.max_active)
    return Rejected(state, Refusal.QUEUE_DEPTH, state.max_queued + state.free)


def _coalesce(state: KeyState) -> Coalesced:
    oldest = state.queued[0].job_id if state.queued else state.active[0].job_id
    return Coalesced(state, oldest)


def _replace_oldest(state: KeyState, waiting: Waiting) -> Replaced | Rejected:
    if not state.queued:
        return _reject(state)
    oldest, *others = state.queued
    return Replaced(enqueue(replace(state, queued=tuple(others)), waiting), oldest)
