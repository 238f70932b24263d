"""How many work messages are missing for certain, from counts taken one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trellis_jobs.jetstream.work.messages import WorkExtent


def missing_messages(resting: int, extent: WorkExtent) -> int:
    """At least this many of the jobs that have not moved for a while have no work message.

    `resting` must be counted in a projection that has read everything which was in the log when
    `extent` was taken. Then a job that rests has rested at that moment too, and its message was in
    the queue or on its way there, because a message is acknowledged only after its job has ended.

    The queue also holds messages of jobs that moved since. They make the result too small, never
    too large: while work runs a few lost messages may be hidden, and no job is suspected wrongly.
    """
    return max(0, resting - extent.messages - extent.not_copied)
