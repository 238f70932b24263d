"""How far a projection is, as its file says: for processes that only read it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from jobs_admin.reads.readers import Readers

_LOOK: Final = 0.02


async def position(readers: Readers) -> int:
    """The log sequence of the last event that was taken in."""
    row = await readers.row("SELECT value FROM projection_metadata WHERE name = 'position'")
    return int(row[0]) if row else 0


class FilePosition:
    """Of a projection that another process makes: looked up, because nobody announces it."""

    def __init__(self, readers: Readers) -> None:
        self.position = 0
        self._readers = readers

    async def wait_for(self, sequence: int) -> None:
        """Looks at least once, so that `position` is not of long ago."""
        self.position = await position(self._readers)
        while self.position < sequence:
            await asyncio.sleep(_LOOK)
            self.position = await position(self._readers)
