"""Jobs of the projection: one by its id, or pages of many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from jobs_admin.projection.rows import moment_of, optional_microseconds, value_hash

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from jobs_admin.projection.rows import Scalar
    from jobs_admin.reads.readers import Readers
    from trellis_jobs.model.states import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """What is left out does not narrow. `since` and `until` are about the last change."""

    service: str | None = None
    type: str | None = None
    states: Sequence[JobState] | None = None
    since: datetime | None = None
    until: datetime | None = None
    key: str | None = None
    id_prefix: str | None = None
    error: str | None = None
    payload: Mapping[str, Scalar] | None = None

    @property
    def is_counted(self) -> bool:
        """Only service, type and state: those are counted as jobs move."""
        return not any((self.since, self.until, self.key, self.id_prefix, self.error, self.payload))


@dataclass(frozen=True, slots=True)
class Page:
    """`documents` are JSON already."""

    documents: list[bytes]
    count: int
    offset: int
    limit: int


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job's row: its JSON, and what only the projection knows of it."""

    number: int
    service: str
    type: str
    id: str
    state: str
    last_sequence: int
    document: dict[str, Any]


class AmbiguousId(Exception):
    """Jobs of several queues have this id; a caller must say which is meant."""

    def __init__(self, job_id: str, owners: list[str]) -> None:
        super().__init__(
            f"job id {job_id} exists in {', '.join(owners)}: say which service and type"
        )
        self.owners = owners


async def find(
    readers: Readers, job_id: str, *, service: str | None = None, job_type: str | None = None
) -> StoredJob | None:
    """By id alone, unless several queues have a job with that id."""
    query = (
        "SELECT job, service, type, id, state, last_sequence, document FROM jobs_projection "
        "WHERE id = ?1 AND (?2 IS NULL OR service = ?2) AND (?3 IS NULL OR type = ?3)"
    )
    rows = await readers.rows(query, (job_id, service, job_type))
    if len(rows) > 1:
        raise AmbiguousId(job_id, [f"{row[1]}/{row[2]}" for row in rows])
    if not rows:
        return None
    number, owner, of_type, found_id, state, last_sequence, document = rows[0]
    return StoredJob(number, owner, of_type, found_id, state, last_sequence, orjson.loads(document))


async def lines(readers: Readers, number: int) -> list[dict[str, Any]]:
    """The newest log lines of a job, oldest first."""
    query = "SELECT at, level, message, run FROM job_logs WHERE job = ? ORDER BY number"
    return [
        {"timestamp": moment_of(at), "level": level, "message": message, "runSeq": run}
        for at, level, message, run in await readers.rows(query, (number,))
    ]


async def page(readers: Readers, wanted: JobFilter, *, offset: int, limit: int) -> Page:
    """Newest first; jobs of the same moment by their ids."""
    where, values = _conditions(wanted)
    query = (
        f"SELECT document FROM jobs_projection{where} "  # noqa: S608 - our own conditions
        "ORDER BY created_at DESC, id DESC, service, type LIMIT ? OFFSET ?"
    )
    rows = await readers.rows(query, (*values, limit, offset))
    total = await count(readers, wanted)
    return Page([document.encode() for (document,) in rows], total, offset, limit)


async def count(readers: Readers, wanted: JobFilter) -> int:
    where, values = _conditions(wanted)
    query = f"SELECT count(*) FROM jobs_projection{where}"  # noqa: S608
    if wanted.is_counted:
        query = f"SELECT coalesce(sum(jobs), 0) FROM job_counts{where}"  # noqa: S608
    row = await readers.row(query, values)
    return int(row[0]) if row else 0


def _conditions(wanted: JobFilter) -> tuple[str, list[Any]]:
    """SQL with a mark for each value: what somebody wrote never becomes part of it."""
    parts = [(part, values) for part, values in _parts(wanted) if None not in values]
    if wanted.states is not None:
        marks = ", ".join("?" * len(wanted.states))
        parts.append((f"state IN ({marks})", [state.value for state in wanted.states]))
    for path, value in (wanted.payload or {}).items():
        in_payload = "job IN (SELECT job FROM payload_values WHERE hash = ?)"
        parts.append((in_payload, [value_hash(path, value)]))
    where = " AND ".join(part for part, _ in parts)
    return f" WHERE {where}" if where else "", [value for _, its in parts for value in its]


def _parts(wanted: JobFilter) -> list[tuple[str, list[Any]]]:
    """One for each filter of one value; without the value it does not count."""
    prefix = wanted.id_prefix
    return [
        ("service = ?", [wanted.service]),
        ("type = ?", [wanted.type]),
        ("updated_at >= ?", [optional_microseconds(wanted.since)]),
        ("updated_at < ?", [optional_microseconds(wanted.until)]),
        ("key = ?", [wanted.key]),
        ("id >= ? AND id < ?", [prefix, None if prefix is None else f"{prefix}\U0010ffff"]),
        ("instr(lower(last_error), lower(?)) > 0", [wanted.error]),
    ]
