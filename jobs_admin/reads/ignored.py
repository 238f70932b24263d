"""Ignored messages of the log: illegal events, and messages that are not events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.model import subjects

if TYPE_CHECKING:
    from jobs_admin.reads.readers import Readers

_NAMES: Final = ("seq", "service", "type", "id", "kind", "subject", "reason", "size")
_EVENTS: Final = (
    "FROM ignored_events WHERE (?1 IS NULL OR service = ?1) AND (?2 IS NULL OR type = ?2)"
)
# Compares tokens of the subject, which contain no special characters of GLOB.
_SERVICE_AT: Final = subjects.ALL_EVENTS.index(">") + 1
_FROM_SERVICE: Final = f"substr(subject, {_SERVICE_AT})"
_FROM_TYPE: Final = f"substr({_FROM_SERVICE}, instr({_FROM_SERVICE}, '.') + 1)"
_MESSAGES: Final = (
    "FROM undecodable_messages "
    f"WHERE (?1 IS NULL OR {_FROM_SERVICE} GLOB ?1 || '.*') "
    f"AND (?2 IS NULL OR {_FROM_TYPE} GLOB ?2 || '.*')"
)
_PAGE: Final = (
    f"SELECT sequence, service, type, id, kind, NULL, reason, NULL {_EVENTS} "
    f"UNION ALL SELECT sequence, NULL, NULL, NULL, NULL, subject, reason, size {_MESSAGES} "
    "ORDER BY 1 DESC LIMIT ?3 OFFSET ?4"
)
_COUNT: Final = f"SELECT (SELECT count(*) {_EVENTS}) + (SELECT count(*) {_MESSAGES})"


@dataclass(frozen=True, slots=True)
class IgnoredPage:
    entries: list[dict[str, Any]]
    count: int


async def page(
    readers: Readers, *, service: str | None, job_type: str | None, offset: int, limit: int
) -> IgnoredPage:
    """A page, newest first; entries have only the fields that are set."""
    of = (service, job_type)
    async with readers.snapshot() as database:
        rows = await database.execute_fetchall(_PAGE, (*of, limit, offset))
        [(count,)] = await database.execute_fetchall(_COUNT, of)
    entries = [dict(zip(_NAMES, row, strict=True)) for row in rows]
    return IgnoredPage([_without_none(entry) for entry in entries], int(count))


def _without_none(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if value is not None}
