"""How long one waiter has seen each slot of a key unchanged, on its own clock.

Clocks of other machines decide nothing (design 5): a lease is over when somebody who watched saw
no renewal for as long as it lasts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from trellis_jobs.model.keys.state import KeyState, Slot


class Observation(Value, frozen=True):
    """`since`: the waiter's own monotonic time when it first saw the slot just so."""

    slot: Slot
    since: float


class LeaseObserver(Value, frozen=True):
    seen: tuple[Observation, ...] = ()

    def observe(self, state: KeyState, now: float) -> LeaseObserver:
        known = {sighting.slot.token: sighting for sighting in self.seen}
        return LeaseObserver(
            tuple(
                before
                if (before := known.get(slot.token)) is not None and before.slot == slot
                else Observation(slot, now)
                for slot in state.active
            )
        )

    def expired(self, ttl: float, now: float) -> list[Slot]:
        """The slots whose lease has run out before the waiter's eyes."""
        return [sighting.slot for sighting in self.seen if now - sighting.since >= ttl]

    def next_expiry(self, ttl: float) -> float | None:
        """When the first of them will be over if nothing changes."""
        return min((sighting.since + ttl for sighting in self.seen), default=None)
