"""Reads one job by its id, or pages of jobs, from the projection."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Final

import orjson

from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.views.jobs import JobCursor
from jobs_admin.projection.rows import microseconds, moment_of
from jobs_admin.reads.job_counts import count
from jobs_admin.reads.job_filter import (
    Conditions,
    Route,
    by_age,
    count_table,
    narrowest,
    shared_conditions,
)
from jobs_admin.reads.readers import QUERY_TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Sequence

    import aiosqlite

    from jobs_admin.reads.readers import Readers

__all__ = [
    "AmbiguousId",
    "FoundJobs",
    "StoredJob",
    "find",
    "lines",
    "page",
]

_MAX_STREAMS: Final = 200
# Errors cluster in time, so a scan by age may visit many jobs before the first match.
_ERRORS_CLUSTER: Final = 10
# How many documents are in memory at a time; one may have a megabyte.
_DOCUMENTS_AT_ONCE: Final = 32
_JOBS: Final = "jobs_projection AS j"
_NEWEST_FIRST: Final = "ORDER BY j.created_at DESC, j.job DESC"


@dataclass(frozen=True, slots=True)
class FoundJobs:
    """`documents` are JSON, and `cursors` are theirs. `is_last`: no older jobs match.

    There are at most as many documents as fit into a reply, and at least one if any job matches.
    """

    documents: list[bytes]
    count: int
    offset: int
    limit: int
    cursors: list[JobCursor]
    is_last: bool


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job's row: its JSON, and fields that only the projection has."""

    number: int
    service: str
    type: str
    id: str
    state: str
    last_sequence: int
    document: dict[str, Any]


class AmbiguousId(Exception):
    """Jobs of several queues have this id; the caller must name the service and type."""

    def __init__(self, job_id: str, owners: list[str]) -> None:
        super().__init__(f"job id {job_id} exists in {', '.join(owners)}: pass service and type")


async def find(
    readers: Readers, job_id: str, *, service: str | None = None, job_type: str | None = None
) -> StoredJob | None:
    """Find a job by its id; raises AmbiguousId when several queues have a job with it."""
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
    job_filter: JobFilter,
    *,
    offset: int,
    limit: int,
    before: JobCursor | None = None,
    max_bytes: float = inf,
) -> FoundJobs:
    """Newest first, by creation, so that a job does not move between pages.

    `before` leaves out the job at that cursor and all newer ones; the count is of all jobs in any
    case. Once the documents have `max_bytes`, no more are read. Raises QueryTimeout.
    """
    if job_filter.is_impossible:
        return FoundJobs([], 0, offset, limit, [], is_last=True)
    async with readers.snapshot(within=QUERY_TIMEOUT) as database:
        found = await count(database, job_filter)
        rows: list[Any] = []
        if found > offset:
            query, values = await page_query(
                database, job_filter, found=found, reach=offset + limit, before=before
            )
            rows = list(await database.execute_fetchall(query, (*values, limit + 1, offset)))
        documents = await _documents(database, [number for number, _ in rows[:limit]], max_bytes)
    cursors = [
        JobCursor(created_at=moment_of(created), first_seq=number)
        for number, created in rows[: len(documents)]
    ]
    return FoundJobs(documents, found, offset, limit, cursors, is_last=len(rows) == len(documents))


async def _documents(
    database: aiosqlite.Connection, numbers: Sequence[int], max_bytes: float
) -> list[bytes]:
    """Returns the documents in the same order, up to the one that exceeds `max_bytes`."""
    documents: list[bytes] = []
    for start in range(0, len(numbers), _DOCUMENTS_AT_ONCE):
        some = numbers[start : start + _DOCUMENTS_AT_ONCE]
        marks = ", ".join("?" * len(some))
        query = f"SELECT job, document FROM jobs_projection WHERE job IN ({marks})"  # noqa: S608
        rows = await database.execute_fetchall(query, some)
        found: dict[int, str] = {row[0]: row[1] for row in rows}
        for number in some:
            documents.append(with_number(number, found.pop(number)))
            max_bytes -= len(documents[-1])
            if max_bytes < 0:
                return documents
    return documents


def with_number(number: int, document: str) -> bytes:
    """A job's JSON with the sequence of its first event."""
    return f'{{"firstSeq":{number},{document[1:]}'.encode()


async def page_query(
    database: aiosqlite.Connection,
    job_filter: JobFilter,
    *,
    found: int,
    reach: int,
    before: JobCursor | None = None,
) -> tuple[str, Sequence[Any]]:
    """The query of a page that ends at `reach`. The caller adds the values of limit and offset."""
    older = _older(before)
    streams = await _streams(database, job_filter) if job_filter.is_counted else None
    if streams is not None:
        return _of_streams([Route(s.source, s.conditions + older) for s in streams])
    everything = await count(database, JobFilter())
    # Reading in order of age passes everything/found jobs for each match; the other way reads all
    # matches and sorts them.
    cost = reach * everything * (_ERRORS_CLUSTER if job_filter.error is not None else 1)
    route = by_age(job_filter) if found * found > cost else narrowest(job_filter)
    of = route.conditions + older
    query = (
        f"SELECT j.job, j.created_at FROM {route.source}{of.where} "  # noqa: S608
        f"{_NEWEST_FIRST} LIMIT ? OFFSET ?"
    )
    return query, of.values


def _older(before: JobCursor | None) -> Conditions:
    """The first condition lets SQLite use an index in order of age."""
    if before is None:
        return Conditions()
    created = microseconds(before.created_at)
    part = "j.created_at <= ? AND (j.created_at < ? OR j.job < ?)"
    return Conditions((part,), (created, created, before.first_seq))


async def _streams(database: aiosqlite.Connection, job_filter: JobFilter) -> list[Route] | None:
    """The parts of the log's jobs that an index has in order of age, whose jobs all match.

    Returns None if there are too many of them.
    """
    if job_filter.service is None and job_filter.type is None and job_filter.error is None:
        if job_filter.state is None:
            return [Route(_JOBS, Conditions())]
        return [
            Route(_JOBS, Conditions(("state = ?",), (state.value,)))
            for state in dict.fromkeys(job_filter.state)
        ]
    of, one = shared_conditions(job_filter), ["service", "type", "state"]
    source = _JOBS
    if job_filter.error is not None:
        one, source = [*one, "error"], f"{_JOBS} INDEXED BY jobs_by_error"
    query = f"SELECT {', '.join(one)} FROM {count_table(job_filter)}{of.where} LIMIT ?"  # noqa: S608
    rows = list(await database.execute_fetchall(query, (*of.values, _MAX_STREAMS + 1)))
    if len(rows) > _MAX_STREAMS:
        return None if job_filter.error is not None else [Route(_JOBS, of)]
    parts = tuple(f"{name} = ?" for name in one)
    return [Route(source, Conditions(parts, tuple(row))) for row in rows]


def _of_streams(streams: list[Route]) -> tuple[str, list[Any]]:
    """Merge the streams. SQLite reads only the jobs up to the end of the page from each."""
    merged = " UNION ALL ".join(
        f"SELECT j.job AS job, j.created_at AS created FROM {of.source}{of.conditions.where}"  # noqa: S608
        for of in streams
    )
    query = f"{merged} ORDER BY created DESC, job DESC LIMIT ? OFFSET ?"
    return query, [value for of in streams for value in of.conditions.values]
