"""Decide what a worker does with a delivery, given the job's status in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from trellis_jobs.model.attempts import Attempt
    from trellis_jobs.model.job_status import JobStatus


class DeliveryRef(Value, frozen=True):
    """One delivery of a work message. `run` is the log sequence of the event that created it."""

    work: str
    number: int
    run: int

    def supersedes(self, other: DeliveryRef) -> bool:
        """True for a later delivery of the same message, or of a message that replaced it.

        A run gets a new message only when its old one is gone, so the message seen last is current.
        """
        if self.work == other.work:
            return self.number > other.number
        return self.run >= other.run


class Start(Value, frozen=True):
    pass


class TakeOver(Value, frozen=True):
    """The attempt that owned the job is lost: write its retry event, then start a new attempt."""

    lost: Attempt | None


class MarkDead(Value, frozen=True):
    """All tries are used up. `lost` is the attempt that used the last one, if it was lost."""

    lost: Attempt | None


class Expire(Value, frozen=True):
    pass


class RedeliverLater(Value, frozen=True):
    delay: timedelta


class Discard(Value, frozen=True):
    """Acknowledge the message without running the job."""

    reason: str


class Ignore(Value, frozen=True):
    """Send no acknowledgement, because a newer delivery of this message owns the job."""

    reason: str


# Every decision other than starting the job.
NotStartable: TypeAlias = TakeOver | MarkDead | Expire | RedeliverLater | Discard | Ignore
Decision: TypeAlias = Start | NotStartable


def decide(
    status: JobStatus, delivered: DeliveryRef, *, now: datetime, seen_idle: bool = False
) -> Decision:
    """`seen_idle`: the worker saw the job not running at some time after this delivery arrived."""
    if status.run != delivered.run:
        return Discard("the message belongs to another run of the job")
    if status.is_over:
        return Discard(f"the job is {status.state}")
    if status.state is JobState.ACTIVE:
        return _decide_active(status, delivered, seen_idle=seen_idle)
    return _decide_waiting(status, now)


def _decide_active(status: JobStatus, delivered: DeliveryRef, *, seen_idle: bool) -> Decision:
    owner = status.owner
    if seen_idle:
        # An older, delayed delivery started it. If that worker dies, the server redelivers.
        return Ignore("the job was started from another delivery while this one waited")
    if owner is None and delivered.number == 1:
        return Discard("a foreign runtime runs the job from another message")
    if owner is not None and owner.work != delivered.work:
        return Discard("the job runs from another message")
    if owner is not None and owner.delivery >= delivered.number:
        return Ignore("a later delivery of this message owns the job")
    if status.tries_exhausted:
        return MarkDead(owner)
    return TakeOver(owner)


def _decide_waiting(status: JobStatus, now: datetime) -> Decision:
    if status.deadline is not None and status.deadline <= now:
        return Expire()
    if status.tries_exhausted:
        return MarkDead(None)
    if status.next_attempt_at is not None and status.next_attempt_at > now:
        return RedeliverLater(status.next_attempt_at - now)
    return Start()
