"""Whose lease of a key is over: clocks of other machines decide nothing (design 5).

A slot that nobody has renewed is known by either of two signs. The server has stored nothing under
the key for as long as the lease lasts: that holds however short we have looked. Or others write
under the key, and this slot has not changed before our own eyes for so long.
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
    """`left`: for how long the lease of each slot lasts, by its token, unless it is renewed."""

    state: KeyState
    left: Mapping[str, timedelta]

    @property
    def over(self) -> frozenset[str]:
        return frozenset(token for token, left in self.left.items() if left <= timedelta(0))


class Leases:
    def __init__(self, clock: ServerClock, monotonic: Callable[[], float]) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._sightings: dict[KeyAddress, LeaseObserver] = {}

    def look_at_all(self, busy: Mapping[KeyAddress, KeyState]) -> None:
        """These are all keys in which somebody is: what was seen of others is forgotten."""
        for key in self._sightings.keys() - busy.keys():
            del self._sightings[key]
        for key, state in busy.items():
            self._look(key, state)

    def over(self, key: KeyAddress) -> frozenset[str]:
        """The slots that were not renewed before our eyes."""
        now, seen = self._monotonic(), self._sightings.get(key, LeaseObserver()).seen
        return frozenset(each.slot.token for each in seen if now - each.since >= lease(each.slot))

    async def look(self, stored: StoredKey) -> HeldKey:
        key, now = stored.state.address, self._monotonic()
        self._look(key, stored.state)
        unchanged = (await self._clock.now() - stored.at).total_seconds()
        seen = self._sightings.get(key, LeaseObserver()).seen
        return HeldKey(
            stored.state,
            {
                each.slot.token: timedelta(
                    seconds=lease(each.slot) - max(unchanged, now - each.since)
                )
                for each in seen
            },
        )

    def _look(self, key: KeyAddress, state: KeyState) -> None:
        if state.active:
            known = self._sightings.get(key, LeaseObserver())
            self._sightings[key] = known.observe(state, self._monotonic())
        else:
            self._sightings.pop(key, None)


def lease(slot: Slot) -> float:
    """How long it lasts from a renewal on, in seconds; both times are of its holder's clock."""
    return (slot.expires_at - slot.heartbeat_at).total_seconds()
