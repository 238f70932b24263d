"""The result of a successful claim. In its own file, because a running job is made from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from trellis_jobs.model.attempts import Attempt
    from trellis_jobs.model.job_status import Head
    from trellis_jobs.worker.slot_acquirer import HeldSlot, Keyless


class Claimed(Value, frozen=True):
    """A job whose `started` event of this attempt is in the log.

    On a queue with keys, `slot` is the acquired slot, or the reason why there is none.
    """

    head: Head
    attempt: Attempt
    slot: HeldSlot | Keyless | None = None
