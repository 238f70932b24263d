"""How long one observer has seen each slot of a key unchanged, by its own clock.

Clocks of other machines are not trusted (design 5): a lease has expired when an observer saw no
renewal for the whole lease time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from trellis_jobs.model.keys.state import KeyState, Slot


class Observation(Value, frozen=True):
    """`since`: the observer's monotonic time when it first saw the slot in this state."""

    slot: Slot
    since: float


class LeaseObserver(Value, frozen=True):
    seen: tuple[Observation, ...] = ()

    def observe(self, state: KeyState, now: float) -> LeaseObserver:
        known = {observation.slot.token: observation for observation in self.seen}
        return LeaseObserver(
            tuple(
                before
                if (before := known.get(slot.token)) is not None and before.slot == slot
                else Observation(slot, now)
                for slot in state.active
            )
        )

    def expired(self, ttl: float, now: float) -> list[Slot]:
        """The slots that the observer has seen unchanged for a whole lease."""
        return [seen.slot for seen in self.seen if now - seen.since >= ttl]

    def next_expiry(self, ttl: float) -> float | None:
        """When the first lease will expire if nothing changes. None without slots."""
        return min((seen.since + ttl for seen in self.seen), default=None)
