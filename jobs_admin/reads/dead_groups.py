"""Dead jobs, grouped by queue and cause: how many, since when, and one example.

What each filter reads:

- none, service, type: `dead_counts`, in the order of the reply;
- since, until: `dead_change_counts` for whole slots of time, and an index for the rest of a slot;
- error: the same counts, for groups whose pattern shows that the text is in all of their errors or
  in none (error_search.py); for the other groups, each error text (`error_counts`);
- id prefix: an index of the dead jobs, unless all of them have the prefix;
- key, application version, payload: the rows of the jobs that match.

Each result is exact. A query that takes too long is refused (QueryTimeout).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from jobs_admin.api.views.dead_groups import DeadGroups, DeadGroupView
from jobs_admin.projection.error_patterns import pattern_of
from jobs_admin.projection.rows import moment_of
from jobs_admin.reads.dead_counts import Counted, counted, rank, ranked_by_count, window
from jobs_admin.reads.job_filter import (
    Conditions,
    Route,
    by_age,
    id_range,
    narrowest,
    queue_conditions,
)
from jobs_admin.reads.readers import QUERY_TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Sequence

    import aiosqlite

    from jobs_admin.api.job_filter import JobFilter
    from jobs_admin.reads.readers import Readers

_OF_GROUP: Final = (
    "FROM jobs_projection AS j INDEXED BY dead_by_cause WHERE j.state = 'dead' "
    "AND j.cause = of_cause"
)
_EXAMPLES: Final = (
    "SELECT job, id, ended_at, json_extract(document, '$.lastError') FROM jobs_projection "
    "WHERE job IN ({marks})"
)


async def dead_groups(
    readers: Readers, job_filter: JobFilter, *, offset: int, limit: int
) -> DeadGroups:
    """The most frequent group first. Raises QueryTimeout."""
    if job_filter.is_impossible:
        return DeadGroups(entries=(), count=0, offset=offset, limit=limit, jobs=0)
    async with readers.snapshot(within=QUERY_TIMEOUT) as database:
        if job_filter.id_prefix and await _every_dead_job_has(database, job_filter.id_prefix):
            job_filter = job_filter.model_copy(update={"id_prefix": None})
        if job_filter.needs_rows:
            changed = await _group_rows(database, job_filter)
            groups = rank([each.group for each in changed], offset, limit)
            ends = _ends_at(job_filter, groups.shown, changed)
        elif job_filter.error is not None or job_filter.since or job_filter.until:
            groups = rank(await counted(database, job_filter), offset, limit)
            ends = _ends(job_filter, groups.shown)
        else:
            groups = await ranked_by_count(database, queue_conditions(job_filter), offset, limit)
            ends = _ends(job_filter, groups.shown)
        shown = await _shown(database, groups.shown, ends)
    return DeadGroups(
        entries=tuple(shown), count=groups.count, offset=offset, limit=limit, jobs=groups.jobs
    )


async def _every_dead_job_has(database: aiosqlite.Connection, id_prefix: str) -> bool:
    first, end = id_range(id_prefix)
    query = (
        "SELECT EXISTS (SELECT 1 FROM jobs_projection INDEXED BY dead_by_id "
        "WHERE state = 'dead' AND id < ?), EXISTS (SELECT 1 FROM jobs_projection "
        "INDEXED BY dead_by_id WHERE state = 'dead' AND id >= ?)"
    )
    [row] = await database.execute_fetchall(query, (first, end))
    return not any(row)


class _Changed(NamedTuple):
    """A group, and when its jobs changed first and last."""

    group: Counted
    first_at: int
    last_at: int


async def _group_rows(database: aiosqlite.Connection, job_filter: JobFilter) -> list[_Changed]:
    route, of = _route(job_filter), queue_conditions(job_filter)
    query = (
        "SELECT service, type, cause, found.jobs, first_at, last_at FROM ("  # noqa: S608
        "SELECT j.cause, count(*) AS jobs, min(j.updated_at) AS first_at, "
        f"max(j.updated_at) AS last_at FROM {route.source}{route.conditions.where} "
        f"GROUP BY j.cause) AS found JOIN dead_counts USING (cause){of.where}"
    )
    rows = await database.execute_fetchall(query, (*route.conditions.values, *of.values))
    return [_Changed(Counted(*row[:4]), *row[4:]) for row in map(tuple, rows)]


def _route(job_filter: JobFilter) -> Route:
    """Use the index of the ids of dead jobs if it has every field of the filter."""
    others = (job_filter.key, job_filter.has_values, job_filter.error, job_filter.app_version)
    if any(others) or not job_filter.id_prefix:
        return narrowest(job_filter)
    ids = Conditions(("j.state = 'dead'", "j.id >= ?", "j.id < ?"), id_range(job_filter.id_prefix))
    return Route("jobs_projection AS j INDEXED BY dead_by_id", ids + window(job_filter))


def _ends(job_filter: JobFilter, groups: Sequence[Counted]) -> Conditions:
    """A query that returns, for each group, when its first changed job died, and its last job."""
    of = window(job_filter)
    narrowed = "".join(f" AND {part}" for part in of.parts)
    query = (
        f"WITH shown (of_cause) AS (VALUES {_marks('(?)', groups)}) SELECT of_cause, "  # noqa: S608
        f"(SELECT j.ended_at {_OF_GROUP}{narrowed} ORDER BY j.updated_at LIMIT 1), "
        f"(SELECT j.job {_OF_GROUP}{narrowed} ORDER BY j.updated_at DESC LIMIT 1) FROM shown"
    )
    causes = (group.cause for group in groups)
    return Conditions((query,), (*causes, *of.values, *of.values))


def _ends_at(
    job_filter: JobFilter, groups: Sequence[Counted], changed: Sequence[_Changed]
) -> Conditions:
    """Like `_ends`, for groups whose first and last times of change are known."""
    times = {each.group.cause: (each.first_at, each.last_at) for each in changed}
    of = by_age(job_filter).conditions
    narrowed = "".join(f" AND {part}" for part in of.parts)
    query = (
        f"WITH shown (of_cause, first_at, last_at) AS (VALUES {_marks('(?, ?, ?)', groups)}) "  # noqa: S608
        "SELECT of_cause, "
        f"(SELECT j.ended_at {_OF_GROUP} AND j.updated_at = first_at{narrowed} LIMIT 1), "
        f"(SELECT max(j.job) {_OF_GROUP} AND j.updated_at = last_at{narrowed}) FROM shown"
    )
    causes = chain.from_iterable((group.cause, *times[group.cause]) for group in groups)
    return Conditions((query,), (*causes, *of.values, *of.values))


def _marks(mark: str, groups: Sequence[Counted]) -> str:
    return ", ".join([mark] * len(groups))


async def _shown(
    database: aiosqlite.Connection, groups: Sequence[Counted], ends: Conditions
) -> list[DeadGroupView]:
    """The counts have case-folded errors, so the text shown is the original error of an example."""
    if not groups:
        return []
    [query] = ends.parts
    rows = await database.execute_fetchall(query, ends.values)
    oldest_and_last = {cause: (oldest, last) for cause, oldest, last in rows}
    numbers = [last for _, last in oldest_and_last.values()]
    rows = await database.execute_fetchall(_EXAMPLES.format(marks=_marks("?", groups)), numbers)
    examples = {row[0]: tuple(row[1:]) for row in rows}
    shown = []
    for group in groups:
        oldest, last = oldest_and_last[group.cause]
        shown.append(_dead_group(group, oldest, *examples[last]))
    return shown


def _dead_group(
    group: Counted, oldest: int, example_id: str, died_at: int, error: str | None
) -> DeadGroupView:
    return DeadGroupView(
        service=group.service,
        type=group.type,
        error=None if error is None else pattern_of(error),
        jobs=group.jobs,
        oldest_at=moment_of(oldest),
        newest_at=moment_of(died_at),
        example_id=example_id,
    )
