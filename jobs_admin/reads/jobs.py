"""Jobs of the projection: one by its id, or pages of many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from jobs_admin.projection.rows import microseconds, moment_of
from jobs_admin.reads.job_filter import Conditions, JobFilter, by_age, narrowest, standing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import aiosqlite

    from jobs_admin.reads.readers import Readers

__all__ = ["AmbiguousId", "JobFilter", "JobPlace", "Page", "StoredJob", "find", "lines", "page"]

_MOST_STREAMS: Final = 200
_NEWEST_FIRST: Final = "ORDER BY j.created_at DESC, j.job DESC"


@dataclass(frozen=True, slots=True)
class JobPlace:
    """Where a job is in every list, whatever becomes of it; `number` is of its first event."""

    created_at: datetime
    number: int


@dataclass(frozen=True, slots=True)
class Page:
    """`documents` are JSON already; `places` are theirs. `is_last`: no older jobs match."""

    documents: list[bytes]
    count: int
    offset: int
    limit: int
    places: list[JobPlace]
    is_last: bool


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


async def page(
    readers: Readers,
    wanted: JobFilter,
    *,
    offset: int,
    limit: int,
    before: JobPlace | None = None,
) -> Page:
    """Newest first, by creation, so that a job does not move between pages.

    `before` leaves out that place and all newer ones; the count is of all jobs in any case.
    """
    if wanted.is_impossible:
        return Page([], 0, offset, limit, [], is_last=True)
    async with readers.snapshot() as database:
        count = await _count(database, wanted)
        rows: list[Any] = []
        if count > offset:
            query, values = await page_query(
                database, wanted, count=count, reach=offset + limit, before=before
            )
            rows = list(await database.execute_fetchall(query, (*values, limit + 1, offset)))
    return Page(
        [_with_number(number, document) for number, _, document in rows[:limit]],
        count,
        offset,
        limit,
        [JobPlace(moment_of(created), number) for number, created, _ in rows[:limit]],
        is_last=len(rows) <= limit,
    )


def _with_number(number: int, document: str) -> bytes:
    return f'{{"firstSeq":{number},{document[1:]}'.encode()


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
    database: aiosqlite.Connection,
    wanted: JobFilter,
    *,
    count: int,
    reach: int,
    before: JobPlace | None = None,
) -> tuple[str, Sequence[Any]]:
    """The query of a page that ends at `reach`; its limit and offset are still to be given."""
    older = _older(before)
    if wanted.is_counted:
        return _of_streams([of + older for of in await _streams(database, wanted)])
    everything = await _count(database, JobFilter())
    # In order of age every match costs as many looks as there are jobs for each; else all matches
    # are looked up and sorted.
    route = by_age(wanted) if count * count > reach * everything else narrowest(wanted)
    of = route.conditions + older
    query = (
        "SELECT job, created, document FROM jobs_projection JOIN ("  # noqa: S608
        f"SELECT j.job AS job, j.created_at AS created FROM {route.source}{of.where} "
        f"{_NEWEST_FIRST} LIMIT ? OFFSET ?) USING (job) "
        "ORDER BY created DESC, job DESC"
    )
    return query, of.values


def _older(before: JobPlace | None) -> Conditions:
    """The first part is what an index in order of age is entered by."""
    if before is None:
        return Conditions()
    created = microseconds(before.created_at)
    part = "j.created_at <= ? AND (j.created_at < ? OR j.job < ?)"
    return Conditions((part,), (created, created, before.number))


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
        f"SELECT job, created, document FROM jobs_projection JOIN ({merged} "  # noqa: S608
        "ORDER BY created DESC, job DESC LIMIT ? OFFSET ?) USING (job) "
        "ORDER BY created DESC, job DESC"
    )
    return query, [value for of in streams for value in of.values]
