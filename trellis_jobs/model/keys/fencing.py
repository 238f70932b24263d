"""Fence the holder of an expired slot lease before its slot goes to another job.

An event appended to the job's log makes the server refuse what the holder appends later (design 5).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from trellis_jobs.model import events as e
from trellis_jobs.model.concurrency import Concurrency
from trellis_jobs.model.job_errors import Interruption, JobError
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from trellis_jobs.model.job_status import JobStatus
    from trellis_jobs.model.keys.state import Slot
    from trellis_jobs.model.keys.template import JobKey


class StalePolicy(StrEnum):
    """On an expired lease, end its job as stale, or block the key until an operator acts."""

    FAIL_STALE = "fail-stale"
    BLOCK = "block"


class EndAsStale(Value, frozen=True):
    """The job runs under this slot: end it as stale."""


class LeaveNote(Value, frozen=True):
    """The slot was acquired, but no start is in the log: append a note, which refuses the start."""


class NoFence(Value, frozen=True):
    """Nothing the holder may still append depends on the slot."""


Fence: TypeAlias = EndAsStale | LeaveNote | NoFence


def fence(status: JobStatus | None, token: str) -> Fence:
    """Decide how to fence the holder. It owns an active job without an owner (foreign runtime)."""
    if status is None or status.is_over:
        return NoFence()
    if status.state is not JobState.ACTIVE:
        return LeaveNote()
    if status.owner is None or status.owner.id == token:
        return EndAsStale()
    return NoFence()


def fencing_event(
    status: JobStatus, fields: e.EventFields, *, key: JobKey, slot: Slot, reason: str
) -> e.Event:
    """End the job as stale if it runs in the slot; otherwise add a note."""
    if not isinstance(fence(status, slot.token), EndAsStale):
        return e.StaleCompletionIgnored(**fields, lost_attempt=slot.token, reason=reason)
    return e.Stale(
        **fields,
        attempt=status.owner,
        error=JobError(
            type=Interruption.LEASE_OVER, message=reason, tries=fields["tries"], at=fields["at"]
        ),
        concurrency=concurrency_of(key, slot),
    )


def is_takeover(status: JobStatus | None) -> bool:
    """Whether removing the slot of this job counts as a takeover: its job has ended as stale.

    Another process may have ended it, and died before it removed the slot.
    """
    return status is not None and status.state is JobState.STALE


def lost_with_worker(event: e.Event | None, token: str) -> bool:
    """Whether the event ended the attempt with this slot because its worker counted as dead.

    The worker may only be cut off. Then its handler runs until the lease of the slot is over.
    """
    return (
        isinstance(event, e.Dead | e.RetryScheduled)
        and event.attempt is not None
        and event.attempt.id == token
        and event.error.type == Interruption.WORKER_DEATH
    )


def concurrency_of(key: JobKey, slot: Slot) -> Concurrency:
    """Returns the concurrency fields for events of a job that holds a slot."""
    return Concurrency(
        key=key.display,
        key_hash=key.hash,
        slot_token=slot.token,
        instance=slot.instance,
        heartbeat_at=slot.heartbeat_at,
        lease_expires_at=slot.expires_at,
    )
