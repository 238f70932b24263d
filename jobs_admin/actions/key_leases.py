"""Finds out which leases of a key have expired, without the clocks of other machines (design 5).

A lease has expired in either of two cases. The server has stored nothing under the key for the
length of the lease; this needs no observation. Or other jobs write under the key, and this process
has observed the slot unchanged for the length of the lease.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from trellis_jobs.model.keys.lease_observer import LeaseObserver

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trellis_jobs.jetstream.client.server_clock import ServerClock
    from trellis_jobs.jetstream.keys.read import StoredKey
    from trellis_jobs.model.keys.state import KeyAddress, KeyState, Slot


@dataclass(frozen=True, slots=True)
class HeldKey:
    """`remaining`: how long the lease of each slot lasts unless it is renewed, by its token."""

    state: KeyState
    remaining: Mapping[str, timedelta]

    @property
    def expired(self) -> frozenset[str]:
        return frozenset(
            token for token, remaining in self.remaining.items() if remaining <= timedelta(0)
        )


class Leases:
    def __init__(self, clock: ServerClock, monotonic: Callable[[], float]) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._observers: dict[KeyAddress, LeaseObserver] = {}

    def observe_all(self, busy: Mapping[KeyAddress, KeyState]) -> None:
        """Observe all keys that have jobs, and drop the observations of other keys."""
        for key in self._observers.keys() - busy.keys():
            del self._observers[key]
        for key, state in busy.items():
            self._observe(key, state)

    def expired(self, key: KeyAddress) -> frozenset[str]:
        """The slots that this process has observed unchanged for the length of their lease."""
        now, seen = self._monotonic(), self._observers.get(key, LeaseObserver()).seen
        return frozenset(each.slot.token for each in seen if now - each.since >= lease(each.slot))

    async def observe(self, stored: StoredKey) -> HeldKey:
        key, now = stored.state.address, self._monotonic()
        self._observe(key, stored.state)
        unchanged = (await self._clock.now() - stored.at).total_seconds()
        seen = self._observers.get(key, LeaseObserver()).seen
        return HeldKey(
            stored.state,
            {
                each.slot.token: timedelta(
                    seconds=lease(each.slot) - max(unchanged, now - each.since)
                )
                for each in seen
            },
        )

    def _observe(self, key: KeyAddress, state: KeyState) -> None:
        if state.active:
            known = self._observers.get(key, LeaseObserver())
            self._observers[key] = known.observe(state, self._monotonic())
        else:
            self._observers.pop(key, None)


def lease(slot: Slot) -> float:
    """The length of the lease in seconds; both times are from its holder's clock."""
    return (slot.expires_at - slot.heartbeat_at).total_seconds()
