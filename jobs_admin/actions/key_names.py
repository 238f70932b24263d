"""Keys by the names that people see, as the bucket has them: also those whose jobs are gone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trellis_jobs.jetstream.keys.scan import KeyChanges
    from trellis_jobs.model.keys.state import KeyAddress


class KeyNames:
    """The first look is at the whole bucket, later ones only at what has changed since."""

    def __init__(self, changes: KeyChanges) -> None:
        self._changes = changes
        self._names: dict[KeyAddress, str] = {}
        self._looking = asyncio.Lock()

    async def hashes(self, service: str, job_type: str, name: str) -> list[str]:
        async with self._looking:
            await self._look()
        return sorted(
            key.hash
            for key, known_as in self._names.items()
            if known_as == name and (key.service, key.job_type) == (service, job_type)
        )

    async def _look(self) -> None:
        are_all, changed = await self._changes.since_last()
        if are_all:
            self._names.clear()
        for key, state in changed.items():
            self._names.pop(key, None)
            if state is not None:
                self._names[key] = state.display
