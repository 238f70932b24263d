"""The lease of one slot of a key, valid while it is renewed."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from trellis_jobs.model.keys.slots import Renewed, SlotLost, renew

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from trellis_jobs.contract.key_policy import KeyPolicy
    from trellis_jobs.jetstream.keys.bucket import KeyBucket
    from trellis_jobs.model.keys.state import KeyState, Slot


# A handler may request renewals in a tight loop; requests this soon after one are ignored.
_MIN_RENEWAL_INTERVAL: Final = 0.1


class SlotLease:
    """Two threads share it: each assignment of a field is atomic.

    `renewed_at` is monotonic, `heartbeat_at` wall-clock time. `renewal_requested`: the handler
    requested a renewal before it is due. `renew_until`: as in the lease of a delivery.
    """

    __slots__ = (
        "_interval",
        "_max_unconfirmed",
        "_ttl",
        "empty",
        "expires_at",
        "heartbeat_at",
        "is_lost",
        "is_renewing",
        "renew_until",
        "renewal_requested",
        "renewed_at",
        "token",
    )

    def __init__(
        self, empty: KeyState, slot: Slot, key_policy: KeyPolicy, started_at: float
    ) -> None:
        self.empty = empty
        self.token = slot.token
        self.renewed_at = started_at
        self.heartbeat_at = slot.heartbeat_at
        self.expires_at = slot.expires_at
        self.is_lost = False
        self.is_renewing = False
        self.renewal_requested = False
        self.renew_until = inf
        self._ttl = key_policy.heartbeat_ttl
        self._interval = key_policy.heartbeat_interval.total_seconds()
        self._max_unconfirmed = (
            key_policy.heartbeat_ttl - key_policy.heartbeat_interval
        ).total_seconds()

    def is_due(self, now: float) -> bool:
        if self.is_renewing or self.is_over(now) or now >= self.renew_until:
            return False
        return self.renewal_requested or now - self.renewed_at >= self._interval

    def is_over(self, now: float) -> bool:
        """Returns whether the lease is lost, or was not confirmed for so long that other workers
        may soon evict it (design 5).

        The lease stays over, because another worker may have seen its end and be about to act.
        """
        if now - self.renewed_at > self._max_unconfirmed:
            self.is_lost = True
        return self.is_lost

    def request_renewal(self, now: float) -> bool:
        """Request a renewal now; returns False when the last one is very recent."""
        self.renewal_requested = now - self.renewed_at >= _MIN_RENEWAL_INTERVAL
        return self.renewal_requested

    async def renew(
        self, bucket: KeyBucket, now: Callable[[], datetime], monotonic: Callable[[], float]
    ) -> None:
        """The lease counts from before the write was sent, because that is its earliest time."""
        started_at, at = monotonic(), now()

        def beat(state: KeyState) -> Renewed | SlotLost:
            return renew(state, self.token, at=at, ttl=self._ttl)

        self.is_renewing, self.renewal_requested = True, False
        try:
            renewed = await bucket.apply(self.empty, beat)
        finally:
            self.is_renewing = False
        if isinstance(renewed, SlotLost):
            self.is_lost = True
        elif not self.is_over(monotonic()):
            self.renewed_at, self.heartbeat_at, self.expires_at = started_at, at, at + self._ttl
