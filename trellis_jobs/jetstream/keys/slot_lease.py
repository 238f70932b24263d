"""One slot of a key that is ours as long as it is renewed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trellis_jobs.model.keys.slots import Renewed, SlotLost, renew

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from trellis_jobs.contract.key_policy import KeyPolicy
    from trellis_jobs.jetstream.keys.bucket import KeyBucket
    from trellis_jobs.model.keys.state import KeyState, Slot


# A handler may ask in every round of a loop; so soon after a renewal there is nothing to do.
_MIN_RENEWAL_INTERVAL: Final = 0.1


class SlotLease:
    """Shared by two threads, field by field. `renewed_at` is uptime, `heartbeat_at` the clock's.

    `renewal_requested`: the handler asked for a renewal before it is due.
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
        self._ttl = key_policy.heartbeat_ttl
        self._interval = key_policy.heartbeat_interval.total_seconds()
        self._max_unconfirmed = (
            key_policy.heartbeat_ttl - key_policy.heartbeat_interval
        ).total_seconds()

    def is_due(self, now: float) -> bool:
        if self.is_renewing or self.is_over(now):
            return False
        return self.renewal_requested or now - self.renewed_at >= self._interval

    def is_over(self, now: float) -> bool:
        """Lost, or so long unconfirmed that others may soon take it for lost (design 5).

        For good: somebody may have seen it end, and be about to act on that.
        """
        if now - self.renewed_at > self._max_unconfirmed:
            self.is_lost = True
        return self.is_lost

    def request_renewal(self, now: float) -> bool:
        """The handler asks for a renewal; False when there was one just now."""
        self.renewal_requested = now - self.renewed_at >= _MIN_RENEWAL_INTERVAL
        return self.renewal_requested

    async def renew(
        self, bucket: KeyBucket, now: Callable[[], datetime], monotonic: Callable[[], float]
    ) -> None:
        """Counts from before the write was sent: it may have been stored at once."""
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
