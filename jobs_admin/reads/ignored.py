"""Ignored messages of the log: illegal events, and messages that are not events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jobs_admin.api.views.base import Page
from jobs_admin.api.views.services import IgnoredView
from trellis_jobs.model import subjects

if TYPE_CHECKING:
    from jobs_admin.reads.readers import Readers

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
    f"SELECT sequence, reason, service, type, id, kind, NULL, NULL {_EVENTS} "
    f"UNION ALL SELECT sequence, reason, NULL, NULL, NULL, NULL, subject, size {_MESSAGES} "
    "ORDER BY 1 DESC LIMIT ?3 OFFSET ?4"
)
_COUNT: Final = f"SELECT (SELECT count(*) {_EVENTS}) + (SELECT count(*) {_MESSAGES})"


async def page(
    readers: Readers, *, service: str | None, job_type: str | None, offset: int, limit: int
) -> Page[IgnoredView]:
    """A page, newest first."""
    of = (service, job_type)
    async with readers.snapshot() as database:
        rows = await database.execute_fetchall(_PAGE, (*of, limit, offset))
        [(count,)] = await database.execute_fetchall(_COUNT, of)
    entries = [_fields(*row) for row in rows]
    return Page[IgnoredView].of(entries, count=count, offset=offset, limit=limit)


def _fields(seq: int, reason: str, *optional: Any) -> dict[str, Any]:
    service, job_type, job_id, kind, subject, size = optional
    if subject is not None:
        return {"seq": seq, "reason": reason, "subject": subject, "size": size}
    job = {"service": service, "type": job_type, "id": job_id}
    return {"seq": seq, "reason": reason, **job, "kind": kind}
