"""The jobs that hold keys, from the bucket: their workers and leases."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from jobs_admin.actions.job_keys import is_key_hash
from jobs_admin.api.views.keys import HolderView
from jobs_admin.gather_limited import gather_limited
from trellis_jobs.errors import JobsError
from trellis_jobs.model.keys.state import KEYS_BUCKET, KeyAddress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from jobs_admin.actions.job_keys import JobKeys
    from jobs_admin.api.views.keys import BusyKeyView
    from trellis_jobs.jetstream.client.server_clock import ServerClock
    from trellis_jobs.model.keys.state import KeyState, Slot

_MILLISECOND: Final = timedelta(milliseconds=1)
# Keys that cannot be read in this time are listed without their holders.
_TIMEOUT: Final = 2.0


@dataclass(frozen=True, slots=True)
class KeyHolders:
    keys: JobKeys
    clock: ServerClock

    async def added_to(self, listed: Sequence[BusyKeyView]) -> list[BusyKeyView]:
        """The keys with their holders, as far as their states can be read in time."""
        states: dict[tuple[str, str, str], KeyState] = {}

        async def read(key: BusyKeyView) -> None:
            state = await self._read(key)
            if state is not None:
                states[key.service, key.type, key.key_hash] = state

        try:
            async with asyncio.timeout(_TIMEOUT):
                await gather_limited(read, listed)
        except TimeoutError:
            pass
        now = await self.clock.now()
        return [_with_holders(key, states, now) for key in listed]

    async def _read(self, key: BusyKeyView) -> KeyState | None:
        """Returns None for a state that is missing, malformed, or may not be read."""
        if not is_key_hash(key.key_hash):
            return None
        try:
            bucket = await self.keys.buckets.of(key.service, key.type) or KEYS_BUCKET
            return await self.keys.read(KeyAddress(key.service, key.type, key.key_hash, bucket))
        except JobsError:
            return None


def holder_view(slot: Slot, now: datetime) -> HolderView:
    return HolderView(
        job_id=slot.job_id,
        instance_id=slot.instance,
        started_at=slot.started_at,
        heartbeat_at=slot.heartbeat_at,
        heartbeat_age_ms=max(0, (now - slot.heartbeat_at) // _MILLISECOND),
        lease_expires_at=slot.expires_at,
    )


def _with_holders(
    key: BusyKeyView, states: dict[tuple[str, str, str], KeyState], now: datetime
) -> BusyKeyView:
    state = states.get((key.service, key.type, key.key_hash))
    if state is None:
        return key
    return key.model_copy(
        update={
            "holders": tuple(holder_view(slot, now) for slot in state.active),
            "max_active": state.max_active,
            "oldest_waiting_at": min((each.created_at for each in state.queued), default=None),
            "takeovers": state.stale_takeovers,
        }
    )
