"""Changes of a key's slots: acquire, renew, confirm, release, drop."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from trellis_jobs.model.values import Value, replace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, timedelta

    from trellis_jobs.model.keys.state import KeyState, Slot, Waiting


class Acquired(Value, frozen=True):
    state: KeyState


class AllSlotsTaken(Value, frozen=True):
    """All slots are held by other jobs."""

    state: KeyState


class NotFirst(Value, frozen=True):
    """A slot is free, but older jobs wait for it."""

    state: KeyState


class Held(Value, frozen=True):
    """Another attempt of the same job holds a slot, and may know the newest log sequence.

    The caller appends a guarded event, so that the server refuses the other attempt's start, and
    then acquires again with the sequence of that event.
    """

    state: KeyState
    slot: Slot


Acquisition: TypeAlias = Acquired | AllSlotsTaken | NotFirst | Held


class Renewed(Value, frozen=True):
    state: KeyState


class SlotLost(Value, frozen=True):
    """The slot no longer belongs to this attempt."""

    state: KeyState


class Unchanged(Value, frozen=True):
    """The slot is as it was read. The state is a copy, so that it is written back."""

    state: KeyState


class Removed(Value, frozen=True):
    """The state without the job or the slot. It is the same object if nothing was removed."""

    state: KeyState


def acquire(state: KeyState, slot: Slot, waiting: Waiting, *, may_overtake: bool) -> Acquisition:
    """Take a slot for a job. `waiting` is the job's entry in the queue, even if it is not queued.

    A job that already has a slot gets it back under the new token if the caller knows a newer log
    sequence than the holder did: the earlier attempt is over, or its start will be refused.

    `may_overtake` lets a job pass older ones. Workers set it once a slot has been free for a
    while, so that an older job that no worker tries to start does not block the key.
    """
    own = state.slot_of(slot.job_id)
    if own is not None:
        if own.token != slot.token and own.since >= slot.since:
            return Held(state, own)
        return Acquired(_reuse_slot(withdraw(state, slot.job_id).state, own, slot))
    if state.free == 0:
        return AllSlotsTaken(state)
    if not may_overtake and len(due_before(waiting, state, slot.started_at)) >= state.free:
        return NotFirst(state)
    return Acquired(replace(withdraw(state, slot.job_id).state, active=(*state.active, slot)))


def renew(state: KeyState, token: str, *, at: datetime, ttl: timedelta) -> Renewed | SlotLost:
    if all(slot.token != token for slot in state.active):
        return SlotLost(state)
    renewed = tuple(
        replace(slot, heartbeat_at=at, expires_at=at + ttl) if slot.token == token else slot
        for slot in state.active
    )
    return Renewed(replace(state, active=renewed))


def confirm(state: KeyState, slot: Slot) -> Unchanged | SlotLost:
    """Check by a write that a slot is unchanged, because a read may return an old state."""
    return Unchanged(replace(state)) if slot in state.active else SlotLost(state)


def release(state: KeyState, token: str, *, requeue: Waiting | None = None) -> Removed:
    """Release a slot. A job that will be retried returns to the queue, at its place by age."""
    if all(slot.token != token for slot in state.active):
        return Removed(state)
    left = replace(state, active=tuple(slot for slot in state.active if slot.token != token))
    return Removed(left if requeue is None else enqueue(left, requeue))


def drop(state: KeyState, token: str, *, counted: bool) -> Removed:
    """Remove a slot whose lease has expired. `counted`: its job was ended as stale."""
    left = release(state, token).state
    if counted and left is not state:
        left = replace(left, stale_takeovers=left.stale_takeovers + 1)
    return Removed(left)


def forget(state: KeyState, *job_ids: str, seen: KeyState) -> Removed:
    """Remove the slots and queue entries of jobs that have ended or were never created.

    Only slots in `seen`, the state read before the log, are removed: newer slots belong to new
    runs.
    """
    gone = frozenset(job_ids)
    tokens = {slot.token for slot in seen.active if slot.job_id in gone}
    active = tuple(slot for slot in state.active if slot.token not in tokens)
    queued = tuple(waiting for waiting in state.queued if waiting.job_id not in gone)
    if len(active) == len(state.active) and len(queued) == len(state.queued):
        return Removed(state)
    return Removed(replace(state, active=active, queued=queued))


def withdraw(state: KeyState, job_id: str, *, request_id: str | None = None) -> Removed:
    """Remove a job from the queue; with `request_id`, only if that request queued it."""
    queued = tuple(
        waiting
        for waiting in state.queued
        if waiting.job_id != job_id or request_id not in {None, waiting.request_id}
    )
    return Removed(state if len(queued) == len(state.queued) else replace(state, queued=queued))


def enqueue(state: KeyState, waiting: Waiting) -> KeyState:
    """Add a job to the queue, which is ordered by creation time."""
    if state.is_queued(waiting.job_id):
        return state
    ahead = len(list(_older_than(waiting, state)))
    return replace(state, queued=(*state.queued[:ahead], waiting, *state.queued[ahead:]))


def due_before(waiting: Waiting, state: KeyState, now: datetime) -> list[Waiting]:
    """The queued jobs older than this one, except those whose retry is not due yet."""
    return [
        other
        for other in _older_than(waiting, state)
        if other.not_before is None or other.not_before <= now
    ]


def _reuse_slot(state: KeyState, own: Slot, slot: Slot) -> KeyState:
    if own == slot:
        return state
    return replace(state, active=tuple(slot if other is own else other for other in state.active))


def _older_than(waiting: Waiting, state: KeyState) -> Iterator[Waiting]:
    for other in state.queued:
        if other.job_id == waiting.job_id or other.created_at > waiting.created_at:
            return
        yield other
