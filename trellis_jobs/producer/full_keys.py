"""Evicts expired slots of keys that are full.

If no job may wait for a key, no worker watches its slots. Only the producers that are refused read
them. A slot that stays unchanged for as long as its lease lasts has expired (design 5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trellis_jobs.model.bounded_dict import BoundedDict
from trellis_jobs.model.keys.fencing import StalePolicy
from trellis_jobs.model.keys.lease_observer import LeaseObserver

if TYPE_CHECKING:
    from collections.abc import Callable

    from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
    from trellis_jobs.model.keys.state import KeyAddress, KeyState
    from trellis_jobs.model.keys.template import JobKey

_MAX_KEYS: Final = 1_000


class FullKeys:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._observers: BoundedDict[KeyAddress, LeaseObserver] = BoundedDict(_MAX_KEYS)

    def reset(self) -> None:
        """Observes all leases from the start: holders could not renew them during an outage."""
        self._observers.clear()

    async def evict_expired(self, keys: KeyCoordinator, key: JobKey, state: KeyState) -> bool:
        """Returns True if a slot was freed."""
        key_policy, now = keys.key_policy, self._monotonic()
        observer = self._observers.get(state.address, LeaseObserver()).observe(state, now)
        self._observers[state.address] = observer
        if key_policy.stale_policy is StalePolicy.BLOCK:
            return False
        expired_slots = observer.expired(key_policy.heartbeat_ttl.total_seconds(), now)
        freed = [await keys.evict(key, slot) for slot in expired_slots]
        return any(freed)
