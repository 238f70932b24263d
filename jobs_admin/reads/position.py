"""The position of a projection, read from its file, for processes that only read it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from jobs_admin.reads.readers import Readers

_POLL_INTERVAL: Final = 0.02


async def position(readers: Readers) -> int:
    """The log sequence of the last message that was applied."""
    row = await readers.row("SELECT value FROM projection_metadata WHERE name = 'position'")
    return int(row[0]) if row else 0


class FilePosition:
    """Polls the position of a projection that another process writes."""

    def __init__(self, readers: Readers) -> None:
        self.position = 0
        self._readers = readers

    async def wait_for(self, sequence: int) -> None:
        """Read the position at least once, so that `position` is recent."""
        self.position = await position(self._readers)
        while self.position < sequence:
            await asyncio.sleep(_POLL_INTERVAL)
            self.position = await position(self._readers)
