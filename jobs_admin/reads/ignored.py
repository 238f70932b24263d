"""What is in the log and did not count: events that were not legal, and messages that are none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from jobs_admin.reads.readers import Readers

_NAMES: Final = ("seq", "service", "type", "id", "kind", "subject", "reason", "excerpt")
_PAGE: Final = (
    "SELECT sequence, service, type, id, kind, NULL, reason, NULL FROM ignored_events "
    "UNION ALL SELECT sequence, NULL, NULL, NULL, NULL, subject, reason, excerpt "
    "FROM undecodable_messages ORDER BY 1 DESC LIMIT ? OFFSET ?"
)
_COUNT: Final = (
    "SELECT (SELECT count(*) FROM ignored_events) + (SELECT count(*) FROM undecodable_messages)"
)


@dataclass(frozen=True, slots=True)
class IgnoredPage:
    entries: list[dict[str, Any]]
    count: int


async def page(readers: Readers, *, offset: int, limit: int) -> IgnoredPage:
    """The newest first; what an entry does not have, it does not name."""
    async with readers.snapshot() as database:
        rows = await database.execute_fetchall(_PAGE, (limit, offset))
        [(count,)] = await database.execute_fetchall(_COUNT)
    entries = [dict(zip(_NAMES, row, strict=True)) for row in rows]
    return IgnoredPage([_told(entry) for entry in entries], int(count))


def _told(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if value is not None}
