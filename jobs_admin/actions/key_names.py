"""Looks up keys by their text in the buckets, including keys whose jobs have left the log."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from trellis_jobs.jetstream.keys.scan import KeyChanges

if TYPE_CHECKING:
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.model.keys.state import KeyAddress


class KeyNames:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._buckets: dict[str, _NamesInBucket] = {}

    async def hashes(self, service: str, job_type: str, name: str, bucket: str) -> list[str]:
        names = self._buckets.get(bucket)
        if names is None:
            names = _NamesInBucket(KeyChanges(self._connection, bucket))
            self._buckets[bucket] = names
        return sorted(
            key.hash
            for key, known_as in (await names.current()).items()
            if known_as == name and (key.service, key.job_type) == (service, job_type)
        )


class _NamesInBucket:
    """The first lookup reads the whole bucket, later ones only what has changed since."""

    def __init__(self, changes: KeyChanges) -> None:
        self._changes = changes
        self._names: dict[KeyAddress, str] = {}
        self._lock = asyncio.Lock()

    async def current(self) -> dict[KeyAddress, str]:
        async with self._lock:
            are_all, changed = await self._changes.since_last()
            if are_all:
                self._names.clear()
            for key, state in changed.items():
                self._names.pop(key, None)
                if state is not None:
                    self._names[key] = state.display
        return self._names
