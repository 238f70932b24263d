"""Reads the messages of the log that are not events from the projection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from jobs_admin.reads.readers import Readers

_OLDEST: Final = (
    "SELECT sequence FROM undecodable_messages WHERE sequence > ? ORDER BY sequence LIMIT ?"
)


async def oldest(readers: Readers, *, after: int, limit: int) -> list[int]:
    """Their sequences in the log after `after`, oldest first."""
    return [int(sequence) for (sequence,) in await readers.rows(_OLDEST, (after, limit))]
