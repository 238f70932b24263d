"""Groups of dead jobs, read from the counts of the projector instead of from the jobs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from jobs_admin.projection.counters import DEAD_SLOTS, MINUTE
from jobs_admin.projection.error_patterns import Values
from jobs_admin.projection.rows import microseconds
from jobs_admin.reads.error_search import Decision, ErrorSearch, pattern_of_example
from jobs_admin.reads.job_filter import Conditions, queue_conditions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import aiosqlite

    from jobs_admin.api.job_filter import JobFilter

_ALL: Final = "SELECT service, type, cause, jobs FROM dead_counts"
_SLOTS: Final = "SELECT cause, {sign}jobs AS jobs FROM dead_change_counts"
# Part of a slot, job by job.
_EDGE: Final = "SELECT cause, {sign}1 AS jobs FROM jobs_projection INDEXED BY jobs_by_change"
# The kinds of values in the errors of each group, and one of its errors.
_ERRORS: Final = (
    "SELECT cause, error_values, (SELECT error FROM jobs_projection AS j INDEXED BY dead_by_cause "
    "WHERE j.state = 'dead' AND j.cause = c.cause LIMIT 1) "
    "FROM dead_counts AS c JOIN dead_value_counts AS v USING (cause)"
)
_LISTED: Final = (
    "WITH listed (service, type, cause) AS (SELECT json_extract(value, '$[0]'), "
    "json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each(?)) "
    "SELECT service, type, cause, "
)
_BY_TEXT: Final = (
    "(SELECT coalesce(sum(jobs), 0) FROM error_counts AS e WHERE e.service = listed.service "
    "AND e.type = listed.type AND e.state = 'dead' AND e.cause = listed.cause "
    "AND instr(e.error, ?) > 0) FROM listed"
)
_BY_JOB: Final = (
    "(SELECT count(*) FROM jobs_projection AS j INDEXED BY dead_by_cause "
    "WHERE j.state = 'dead' AND j.cause = listed.cause AND {window}) FROM listed"
)


class Counted(NamedTuple):
    service: str
    type: str
    cause: int
    jobs: int


@dataclass(frozen=True, slots=True)
class Ranked:
    """The groups of one page, the most frequent first, and the totals of all groups."""

    shown: list[Counted]
    count: int
    jobs: int


async def ranked_by_count(
    database: aiosqlite.Connection, of: Conditions, offset: int, limit: int
) -> Ranked:
    """Reads only the groups of the page, because an index has them in this order."""
    totals = f"SELECT count(*), coalesce(sum(jobs), 0) FROM dead_counts{of.where}"  # noqa: S608
    [(count, jobs)] = await database.execute_fetchall(totals, of.values)
    page = f"{_ALL}{of.where} ORDER BY jobs DESC, service, type, cause LIMIT ? OFFSET ?"
    return Ranked(await _groups(database, page, (*of.values, limit, offset)), count, jobs)


def rank(groups: Sequence[Counted], offset: int, limit: int) -> Ranked:
    ordered = sorted(groups, key=lambda group: (-group.jobs, *group))
    jobs = sum(group.jobs for group in groups)
    return Ranked(ordered[offset : offset + limit], len(groups), jobs)


async def counted(database: aiosqlite.Connection, job_filter: JobFilter) -> list[Counted]:
    """The groups that match service, type, times and error, in no order."""
    of = queue_conditions(job_filter)
    if job_filter.since is None and job_filter.until is None:
        groups = await _groups(database, f"{_ALL}{of.where}", of.values)
    else:
        parts = list(_changes(job_filter))
        changed = " UNION ALL ".join(part for each in parts for part in each.parts)
        query = (
            "SELECT service, type, cause, changed.jobs FROM (SELECT cause, sum(jobs) AS jobs "  # noqa: S608
            f"FROM ({changed}) GROUP BY cause HAVING sum(jobs) > 0) AS changed "
            f"JOIN dead_counts USING (cause){of.where}"
        )
        values = chain.from_iterable(each.values for each in parts)
        groups = await _groups(database, query, (*values, *of.values))
    if job_filter.error is not None:
        groups = await _with_error(database, job_filter, ErrorSearch(job_filter.error), groups)
    return groups


def window(job_filter: JobFilter) -> Conditions:
    """The conditions for the jobs of one group."""
    found = Conditions()
    if job_filter.since is not None:
        found += Conditions(("j.updated_at >= ?",), (microseconds(job_filter.since),))
    if job_filter.until is not None:
        found += Conditions(("j.updated_at < ?",), (microseconds(job_filter.until),))
    if job_filter.error is not None:
        found += Conditions(("instr(j.error, ?) > 0",), (job_filter.error.casefold(),))
    return found


def _changes(job_filter: JobFilter) -> Iterator[Conditions]:
    """Whole days, less the part of the first before `since`, plus the part up to `until`."""
    days = Conditions(("minutes = ?",), (DEAD_SLOTS[0],))
    if job_filter.since is not None:
        since = microseconds(job_filter.since)
        days += Conditions(("slot >= ?",), (_slot(since, DEAD_SLOTS[0]),))
        yield from _of_day(since, "-")
    if job_filter.until is not None:
        until = microseconds(job_filter.until)
        days += Conditions(("slot < ?",), (_slot(until, DEAD_SLOTS[0]),))
        yield from _of_day(until, "")
    yield Conditions((_SLOTS.format(sign="") + days.where,), days.values)


def _of_day(moment: int, sign: str) -> Iterator[Conditions]:
    """From the beginning of a day up to a moment, in ever shorter slots, then job by job."""
    for longer, minutes in pairwise(DEAD_SLOTS):
        first, end = _slot(moment, longer) * (longer // minutes), _slot(moment, minutes)
        of = Conditions(("minutes = ?", "slot >= ?", "slot < ?"), (minutes, first, end))
        yield Conditions((_SLOTS.format(sign=sign) + of.where,), of.values)
    begin = _slot(moment, DEAD_SLOTS[-1]) * DEAD_SLOTS[-1] * MINUTE
    of = Conditions(("state = 'dead'", "updated_at >= ?", "updated_at < ?"), (begin, moment))
    yield Conditions((_EDGE.format(sign=sign) + of.where,), of.values)


def _slot(moment: int, minutes: int) -> int:
    return moment // (minutes * MINUTE)


async def _with_error(
    database: aiosqlite.Connection,
    job_filter: JobFilter,
    search: ErrorSearch,
    groups: list[Counted],
) -> list[Counted]:
    """Read the error texts only of groups whose patterns do not decide."""
    of = queue_conditions(job_filter)
    found_in: defaultdict[int, set[Decision]] = defaultdict(set)
    for cause, values, error in await database.execute_fetchall(_ERRORS + of.where, of.values):
        pattern = None if error is None else pattern_of_example(error)
        found_in[cause].add(search.found_in(pattern, Values(values)))
    certain = [group for group in groups if found_in[group.cause] == {Decision.ALL}]
    unclear = [
        group for group in groups if found_in[group.cause] not in ({Decision.ALL}, {Decision.NONE})
    ]
    return certain + await _count_matching(database, job_filter, unclear)


async def _count_matching(
    database: aiosqlite.Connection, job_filter: JobFilter, groups: Sequence[Counted]
) -> list[Counted]:
    """Count by distinct error texts, or job by job if the filter has a time."""
    listed = orjson.dumps([group[:3] for group in groups]).decode()
    of = window(job_filter)
    if job_filter.since is None and job_filter.until is None:
        query = _LISTED + _BY_TEXT
    else:
        query = _LISTED + _BY_JOB.format(window=" AND ".join(of.parts))
    counted = await _groups(database, query, (listed, *of.values))
    return [group for group in counted if group.jobs]


async def _groups(
    database: aiosqlite.Connection, query: str, values: Iterable[Any]
) -> list[Counted]:
    rows = await database.execute_fetchall(query, tuple(values))
    return [Counted(row[0], row[1], row[2], row[3]) for row in rows]
