"""A job that is ours: its `started` event is in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from trellis_jobs.model.attempts import Attempt
    from trellis_jobs.model.job_status import Head
    from trellis_jobs.worker.slot_acquirer import HeldSlot, Keyless


class Claimed(Value, frozen=True):
    """On a queue with keys there is a slot, or the reason why there can be none."""

    head: Head
    attempt: Attempt
    slot: HeldSlot | Keyless | None = None
