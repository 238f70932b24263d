"""What this process has seen of keys that let no job in.

Where nothing may wait for a key, nobody but those who are refused ever looks at its slots. A slot
that one of them sees unchanged for as long as its lease lasts is over (design 5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trellis_jobs.model.keys.fencing import StalePolicy
from trellis_jobs.model.keys.lease_observer import LeaseObserver

if TYPE_CHECKING:
    from collections.abc import Callable

    from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
    from trellis_jobs.model.keys.state import KeyAddress, KeyState
    from trellis_jobs.model.keys.template import JobKey

_KEYS_REMEMBERED: Final = 1_000


class FullKeys:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._seen: dict[KeyAddress, LeaseObserver] = {}

    def forget(self) -> None:
        """Nobody could renew anything while there was no server: leases count anew from here."""
        self._seen.clear()

    async def evict_what_is_over(self, keys: KeyCoordinator, key: JobKey, state: KeyState) -> bool:
        """True if there may be room now."""
        key_policy, now = keys.key_policy, self._monotonic()
        seen = self._seen.pop(state.address, LeaseObserver()).observe(state, now)
        self._seen[state.address] = seen
        if len(self._seen) > _KEYS_REMEMBERED:
            del self._seen[next(iter(self._seen))]
        if key_policy.stale_policy is StalePolicy.BLOCK:
            return False
        over = seen.expired(key_policy.heartbeat_ttl.total_seconds(), now)
        freed = [await keys.evict(key, slot) for slot in over]
        return any(freed)
