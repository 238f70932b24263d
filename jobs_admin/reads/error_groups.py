"""Jobs grouped by queue and error: how many, since when, and one example.

What each filter reads:

- none, service, type: `group_counts`, in the order of the reply;
- since, until: `group_change_counts` for whole slots of time, and an index for the rest of a slot;
- error: the same counts, for groups whose pattern shows that the text is in all of their errors or
  in none (error_search.py); for the other groups, each error text (`error_counts`);
- id prefix: of dead jobs an index, unless all of them have the prefix;
- key, application version, payload, and others: the rows of the jobs that match.

Each result is exact. A query that takes too long is refused (QueryTimeout).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, product
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jobs_admin.projection.error_patterns import pattern_of
from jobs_admin.projection.rows import moment_of
from jobs_admin.reads.group_counts import (
    Counted,
    counted,
    group_conditions,
    in_any_state,
    rank,
    ranked_by_count,
    window,
)
from jobs_admin.reads.job_filter import Conditions, Route, by_age, id_range, narrowest
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import aiosqlite

    from jobs_admin.api.job_filter import JobFilter

# When a job came into its state: when it ended, or when it last changed.
_ARRIVED: Final = "coalesce(j.ended_at, j.updated_at)"
_OF_GROUP: Final = (
    "FROM jobs_projection AS j INDEXED BY jobs_by_cause WHERE j.cause <> 0 AND j.cause = of_cause"
)
_EXAMPLES: Final = (
    f"SELECT job, id, {_ARRIVED}, json_extract(document, '$.lastError') "  # noqa: S608
    "FROM jobs_projection AS j WHERE job IN ({marks})"
)


@dataclass(frozen=True, slots=True)
class FoundGroup:
    """`oldest_at` and `newest_at` are when the first and the last job came into their states."""

    cause: int
    service: str
    type: str
    error: str | None
    jobs: int
    oldest_at: datetime
    newest_at: datetime
    example_id: str


@dataclass(frozen=True, slots=True)
class FoundGroups:
    """The groups of a page, the number of all groups, and that of their jobs."""

    shown: list[FoundGroup]
    count: int
    jobs: int


async def find_groups(
    database: aiosqlite.Connection, job_filter: JobFilter, *, offset: int, limit: int
) -> FoundGroups:
    """The most frequent group first. `state` of the filter has some of the GROUPED states."""
    if job_filter.is_impossible:
        return FoundGroups([], 0, 0)
    if await _every_job_has_prefix(database, job_filter):
        job_filter = job_filter.model_copy(update={"id_prefix": None})
    if job_filter.needs_rows:
        changed = await _group_rows(database, job_filter)
        groups = rank([each.group for each in changed], offset, limit)
        ends = _ends_at(job_filter, groups.shown, changed)
    elif job_filter.error is not None or job_filter.since or job_filter.until:
        groups = rank(await counted(database, job_filter), offset, limit)
        ends = _ends(job_filter, groups.shown)
    else:
        groups = await ranked_by_count(database, job_filter, offset, limit)
        ends = _ends(job_filter, groups.shown)
    return FoundGroups(await _shown(database, groups.shown, ends), groups.count, groups.jobs)


def _are_dead(job_filter: JobFilter) -> bool:
    return set(job_filter.state or ()) == {JobState.DEAD}


async def _every_job_has_prefix(database: aiosqlite.Connection, job_filter: JobFilter) -> bool:
    """Known of dead jobs, whose ids an index has."""
    if job_filter.id_prefix is None or not _are_dead(job_filter):
        return False
    first, end = id_range(job_filter.id_prefix)
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
    route, queues = _route(job_filter), group_conditions(job_filter)
    of = route.conditions + Conditions(("j.cause <> 0",))
    query = (
        "SELECT service, type, cause, found.jobs, first_at, last_at FROM ("  # noqa: S608
        "SELECT j.cause, count(*) AS jobs, min(j.updated_at) AS first_at, "
        f"max(j.updated_at) AS last_at FROM {route.source}{of.where} GROUP BY j.cause) AS found "
        f"JOIN (SELECT DISTINCT cause, service, type FROM group_counts{queues.where}) USING (cause)"
    )
    rows = await database.execute_fetchall(query, (*of.values, *queues.values))
    return [_Changed(Counted(*row[:4]), *row[4:]) for row in map(tuple, rows)]


def _route(job_filter: JobFilter) -> Route:
    """Use the index of the ids of dead jobs if it has every field of the filter."""
    others = (job_filter.key, job_filter.has_values, job_filter.error, job_filter.app_version)
    few = (job_filter.jobs, job_filter.error_group)
    if any(others) or any(few) or not (job_filter.id_prefix and _are_dead(job_filter)):
        return narrowest(job_filter)
    ids = Conditions(("j.state = 'dead'", "j.id >= ?", "j.id < ?"), id_range(job_filter.id_prefix))
    return Route("jobs_projection AS j INDEXED BY dead_by_id", ids + window(job_filter))


def _ends(job_filter: JobFilter, groups: Sequence[Counted]) -> Conditions:
    """A query for the ends of each group in each state, which an index has in order of time.

    It returns the arrival of the job that changed first, when the last changed, and the last job.
    """
    of = in_any_state(job_filter)
    pairs = [(group.cause, state) for group, state in product(groups, job_filter.state or ())]
    one = "".join((f"{_OF_GROUP} AND j.state = of_state", *(f" AND {part}" for part in of.parts)))
    query = (
        f"WITH shown (of_cause, of_state) AS (VALUES {_marks('(?, ?)', pairs)}) "  # noqa: S608
        f"SELECT of_cause, (SELECT {_ARRIVED} {one} ORDER BY j.updated_at LIMIT 1), "
        f"(SELECT j.updated_at {one} ORDER BY j.updated_at DESC LIMIT 1), "
        f"(SELECT j.job {one} ORDER BY j.updated_at DESC LIMIT 1) FROM shown"
    )
    return Conditions((query,), (*chain.from_iterable(pairs), *of.values, *of.values, *of.values))


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
        f"(SELECT {_ARRIVED} {_OF_GROUP} AND j.updated_at = first_at{narrowed} LIMIT 1), last_at, "
        f"(SELECT max(j.job) {_OF_GROUP} AND j.updated_at = last_at{narrowed}) FROM shown"
    )
    causes = chain.from_iterable((group.cause, *times[group.cause]) for group in groups)
    return Conditions((query,), (*causes, *of.values, *of.values))


def _marks(mark: str, values: Sequence[Any]) -> str:
    return ", ".join([mark] * len(values))


async def _shown(
    database: aiosqlite.Connection, groups: Sequence[Counted], ends: Conditions
) -> list[FoundGroup]:
    """The counts have case-folded errors, so the text shown is the original error of an example."""
    if not groups:
        return []
    [query] = ends.parts
    rows = await database.execute_fetchall(query, ends.values)
    oldest: dict[int, int] = {}
    last: dict[int, tuple[int, int]] = {}
    for cause, arrived, changed_at, job in rows:
        if job is not None:
            oldest[cause] = min(arrived, oldest.get(cause, arrived))
            last[cause] = max((changed_at, job), last.get(cause, (changed_at, job)))
    numbers = [job for _, job in last.values()]
    rows = await database.execute_fetchall(_EXAMPLES.format(marks=_marks("?", groups)), numbers)
    examples = {row[0]: tuple(row[1:]) for row in rows}
    shown = []
    for group in groups:
        example_id, newest, error = examples[last[group.cause][1]]
        shown.append(
            FoundGroup(
                cause=group.cause,
                service=group.service,
                type=group.type,
                error=None if error is None else pattern_of(error),
                jobs=group.jobs,
                oldest_at=moment_of(oldest[group.cause]),
                newest_at=moment_of(newest),
                example_id=example_id,
            )
        )
    return shown
