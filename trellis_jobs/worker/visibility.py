"""Stops handlers that do not call heartbeat() in time, on queues with manual renewal.

The lease thread renews the leases while the visibility lasts, and not after its end. So if the
event loop is blocked and this timer cannot fire, the server redelivers the job.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from trellis_jobs.model.try_limits import Renewal

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.jetstream.keys.slot_lease import SlotLease
    from trellis_jobs.jetstream.work.lease_keeper import Lease
    from trellis_jobs.model.events import Begun


def visibility_of(queue: JobType[Any, Any], begun: Begun) -> timedelta | None:
    """How long the handler may go without a heartbeat. Returns None with automatic renewal."""
    if queue.renew is Renewal.AUTOMATIC:
        return None
    own = begun.try_limits
    return queue.ack_wait if own is None or own.visibility is None else own.visibility


class Visibility:
    """`on_expired` is called on the event loop; `extend` may be called from any thread."""

    __slots__ = ("_leases", "_monotonic", "_on_expired", "_seconds", "_timer", "limit")

    def __init__(
        self,
        limit: timedelta,
        leases: tuple[Lease | SlotLease, ...],
        monotonic: Callable[[], float],
        on_expired: Callable[[], None],
    ) -> None:
        self.limit = limit
        self._seconds = limit.total_seconds()
        self._leases = leases
        self._monotonic = monotonic
        self._on_expired = on_expired
        self._timer: asyncio.TimerHandle | None = None
        self.extend()

    def extend(self) -> None:
        until = self._monotonic() + self._seconds
        for lease in self._leases:
            lease.renew_until = until

    def start(self) -> None:
        self.extend()
        self._wait(self._seconds)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._check)

    def _check(self) -> None:
        remaining = self._leases[0].renew_until - self._monotonic()
        if remaining > 0:
            self._wait(remaining)
        else:
            self._on_expired()
