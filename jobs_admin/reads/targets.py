"""Reads the jobs that an operation changes from the projection, page by page, newest first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from jobs_admin.actions.job_follower import Known
from jobs_admin.api.views.jobs import JobCursor
from jobs_admin.projection.rows import moment_of
from jobs_admin.reads.job_counts import count
from jobs_admin.reads.job_filter import count_table, narrowest, shared_conditions
from jobs_admin.reads.jobs import page_query
from jobs_admin.reads.readers import QUERY_TIMEOUT
from trellis_jobs.wire import jobs as wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    import aiosqlite

    from jobs_admin.api.job_filter import JobFilter
    from jobs_admin.reads.readers import Readers

# A job may have a megabyte; this limits what is in memory at a time, in characters.
_MAX_BYTES: Final = 32_000_000
_LOADED_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class Target:
    cursor: JobCursor
    known: Known


@dataclass(frozen=True, slots=True)
class MatchCount:
    """The number of matching jobs of a queue in a state."""

    service: str
    type: str
    state: str
    jobs: int


async def targets(
    readers: Readers, job_filter: JobFilter, *, before: JobCursor | None, limit: int
) -> list[Target]:
    """Up to `limit` jobs after a cursor, fewer if they are large; [] when there are no more."""
    async with readers.snapshot() as database:
        found = await count(database, job_filter)
        if found == 0:
            return []
        query, values = await page_query(
            database, job_filter, found=found, reach=limit, before=before
        )
        rows = await database.execute_fetchall(query, (*values, limit, 0))
        return await _load(database, [row[0] for row in rows])


async def load_targets(readers: Readers, numbers: Sequence[int]) -> list[Target]:
    """Load as many of these jobs as fit into memory, without those that are gone."""
    async with readers.snapshot() as database:
        return await _load(database, numbers)


async def count_matches(readers: Readers, job_filter: JobFilter) -> list[MatchCount]:
    """How many jobs there are of each queue and state. Raises QueryTimeout."""
    if job_filter.is_impossible:
        return []
    of, source, number = shared_conditions(job_filter), count_table(job_filter), "sum(jobs)"
    if not job_filter.is_counted:
        route = narrowest(job_filter)
        of, source, number = route.conditions, route.source, "count(*)"
    query = (
        f"SELECT service, type, state, {number} FROM {source}{of.where} "  # noqa: S608
        "GROUP BY service, type, state ORDER BY service, type, state"
    )
    async with readers.snapshot(within=QUERY_TIMEOUT) as database:
        return [MatchCount(*row) for row in await database.execute_fetchall(query, of.values)]


async def _load(database: aiosqlite.Connection, numbers: Sequence[int]) -> list[Target]:
    loaded: list[Target] = []
    bytes_left = _MAX_BYTES
    for start in range(0, len(numbers), _LOADED_AT_ONCE):
        some = numbers[start : start + _LOADED_AT_ONCE]
        marks = ", ".join("?" * len(some))
        query = (
            "SELECT job, created_at, last_sequence, document FROM jobs_projection "  # noqa: S608
            f"WHERE job IN ({marks})"
        )
        rows = {row[0]: row for row in await database.execute_fetchall(query, some)}
        for number in some:
            if number in rows:
                loaded.append(_target(rows[number]))
                bytes_left -= len(rows[number][3])
        if bytes_left < 0:
            break
    return loaded


def _target(row: Any) -> Target:
    number, created_at, last_sequence, document = row
    job = wire.from_json(orjson.loads(document))
    return Target(
        JobCursor(created_at=moment_of(created_at), first_seq=number), Known(job, last_sequence)
    )
