"""Jobs of the projection: one by its id, or pages of many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from jobs_admin.projection.rows import moment_of
from jobs_admin.reads.job_filter import Conditions, JobFilter, by_age, narrowest, standing

if TYPE_CHECKING:
    from collections.abc import Sequence

    import aiosqlite

    from jobs_admin.reads.readers import Readers

__all__ = ["AmbiguousId", "JobFilter", "Page", "StoredJob", "find", "lines", "page"]

_MOST_STREAMS: Final = 200
_NEWEST_FIRST: Final = "ORDER BY j.created_at DESC, j.job DESC"


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
    """Newest first, by creation, so that a job does not move between pages."""
    if wanted.is_impossible:
        return Page([], 0, offset, limit)
    async with readers.snapshot() as database:
        count = await _count(database, wanted)
        documents: list[bytes] = []
        if count > offset:
            query, values = await page_query(database, wanted, count=count, reach=offset + limit)
            rows = await database.execute_fetchall(query, (*values, limit, offset))
            documents = [document.encode() for (document,) in rows]
    return Page(documents, count, offset, limit)


async def _count(database: aiosqlite.Connection, wanted: JobFilter) -> int:
    if wanted.is_counted:
        of = standing(wanted)
        query = f"SELECT coalesce(sum(jobs), 0) FROM job_counts{of.where}"  # noqa: S608
    else:
        route = narrowest(wanted)
        of = route.conditions
        query = f"SELECT count(*) FROM {route.source}{of.where}"  # noqa: S608
    [(count,)] = await database.execute_fetchall(query, of.values)
    return int(count)


async def page_query(
    database: aiosqlite.Connection, wanted: JobFilter, *, count: int, reach: int
) -> tuple[str, Sequence[Any]]:
    """The query of a page that ends at `reach`; its limit and offset are still to be given."""
    if wanted.is_counted:
        return _of_streams(await _streams(database, wanted))
    everything = await _count(database, JobFilter())
    # In order of age every match costs as many looks as there are jobs for each; else all matches
    # are looked up and sorted.
    route = by_age(wanted) if count * count > reach * everything else narrowest(wanted)
    of = route.conditions
    query = (
        f"SELECT document FROM jobs_projection JOIN (SELECT j.job AS job, j.created_at AS created "  # noqa: S608
        f"FROM {route.source}{of.where} {_NEWEST_FIRST} LIMIT ? OFFSET ?) USING (job) "
        "ORDER BY created DESC, job DESC"
    )
    return query, of.values


async def _streams(database: aiosqlite.Connection, wanted: JobFilter) -> list[Conditions]:
    """The parts of the log's jobs that an index has in order of age, and that are all wanted."""
    if wanted.service is None and wanted.type is None:
        if wanted.states is None:
            return [Conditions()]
        return [
            Conditions(("state = ?",), (state.value,)) for state in dict.fromkeys(wanted.states)
        ]
    of = standing(wanted)
    query = f"SELECT service, type, state FROM job_counts{of.where} LIMIT ?"  # noqa: S608
    found = list(await database.execute_fetchall(query, (*of.values, _MOST_STREAMS + 1)))
    if len(found) > _MOST_STREAMS:
        return [of]
    one = ("service = ?", "type = ?", "state = ?")
    return [Conditions(one, tuple(row)) for row in found] or [Conditions(("FALSE",))]


def _of_streams(streams: list[Conditions]) -> tuple[str, list[Any]]:
    """All of them, merged: however many jobs each has, only those up to the page are looked at."""
    merged = " UNION ALL ".join(
        f"SELECT j.job AS job, j.created_at AS created FROM jobs_projection AS j{of.where}"  # noqa: S608
        for of in streams
    )
    query = (
        f"SELECT document FROM jobs_projection JOIN ({merged} "  # noqa: S608
        "ORDER BY created DESC, job DESC LIMIT ? OFFSET ?) USING (job) "
        "ORDER BY created DESC, job DESC"
    )
    return query, [value for of in streams for value in of.values]
