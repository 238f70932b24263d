"""Reads what operators did to jobs, one by one, from the projection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jobs_admin.api.views.audit import AuditEntry, AuditSource, AuditTarget
from jobs_admin.projection.rows import microseconds, moment_of
from jobs_admin.reads.job_filter import Conditions

if TYPE_CHECKING:
    from jobs_admin.api.inputs import AuditInput
    from jobs_admin.reads.readers import Readers

_COLUMNS: Final = "sequence, stored_at, verb, service, type, id, by, reason, request"


async def newest_actions(
    readers: Readers, wanted: AuditInput, limit: int
) -> tuple[list[AuditEntry], int]:
    """The newest actions that match, and how many match in all."""
    if wanted.target not in (None, AuditTarget.JOB):
        return [], 0
    of = _conditions(wanted)
    page = f"SELECT {_COLUMNS} FROM operator_actions{of.where} ORDER BY sequence DESC LIMIT ?"  # noqa: S608
    count = f"SELECT count(*) FROM operator_actions{of.where}"  # noqa: S608 - only marks
    async with readers.snapshot() as database:
        rows = await database.execute_fetchall(page, (*of.values, limit))
        [(number,)] = await database.execute_fetchall(count, of.values)
    return [_entry(*row) for row in rows], number


def _conditions(wanted: AuditInput) -> Conditions:
    exactly = {name: getattr(wanted, name) for name in ("by", "verb", "service", "type")}
    found = Conditions()
    for name, value in exactly.items():
        if value is not None:
            found += Conditions((f"{name} = ?",), (value,))
    if wanted.since is not None:
        found += Conditions(("stored_at >= ?",), (microseconds(wanted.since),))
    if wanted.until is not None:
        found += Conditions(("stored_at < ?",), (microseconds(wanted.until),))
    return found


def _entry(sequence: int, stored_at: int, *columns: Any) -> AuditEntry:
    verb, service, job_type, job_id, by, reason, request = columns
    return AuditEntry(
        at=moment_of(stored_at),
        source=AuditSource.EVENT,
        seq=sequence,
        verb=verb,
        target=AuditTarget.JOB,
        service=service,
        type=job_type,
        id=job_id,
        by=by,
        reason=reason,
        request_id=request,
    )
