"""Groups of jobs by error, read from the counts of the projector instead of from the jobs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from jobs_admin.projection.counters import GROUP_SLOTS, MINUTE
from jobs_admin.projection.error_patterns import Values
from jobs_admin.projection.rows import microseconds
from jobs_admin.reads.error_search import Decision, ErrorSearch, pattern_of_example
from jobs_admin.reads.job_filter import Conditions, one_of_states, queue_conditions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import aiosqlite

    from jobs_admin.api.job_filter import JobFilter

_ALL: Final = "SELECT service, type, cause, sum(jobs) AS jobs FROM group_counts"
_OF_ONE_STATE: Final = "SELECT service, type, cause, jobs FROM group_counts"
_EACH: Final = " GROUP BY cause, service, type"
_SLOTS: Final = "SELECT cause, {sign}jobs AS jobs FROM group_change_counts"
# Part of a slot, job by job.
_EDGE: Final = "SELECT cause, {sign}1 AS jobs FROM jobs_projection INDEXED BY jobs_by_change"
# The kinds of values in the errors of each group, and one of its errors.
_ERRORS: Final = (
    "SELECT cause, error_values, (SELECT error FROM jobs_projection AS j INDEXED BY jobs_by_cause "
    "WHERE j.cause <> 0 AND j.cause = c.cause AND j.state = c.state LIMIT 1) "
    "FROM group_counts AS c JOIN group_value_counts AS v USING (cause, state)"
)
_LISTED: Final = (
    "WITH listed (service, type, cause) AS (SELECT json_extract(value, '$[0]'), "
    "json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each(?)) "
    "SELECT service, type, cause, "
)
_BY_TEXT: Final = (
    "(SELECT coalesce(sum(jobs), 0) FROM error_counts AS j WHERE j.service = listed.service "
    "AND j.type = listed.type AND j.cause = listed.cause AND {window}) FROM listed"
)
_BY_JOB: Final = (
    "(SELECT count(*) FROM jobs_projection AS j INDEXED BY jobs_by_cause "
    "WHERE j.cause <> 0 AND j.cause = listed.cause AND {window}) FROM listed"
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
    database: aiosqlite.Connection, job_filter: JobFilter, offset: int, limit: int
) -> Ranked:
    """In one state only the groups of the page are read, because an index has them in this order.

    In several states, their counts have to be added up for each group.
    """
    of = group_conditions(job_filter)
    is_one_state = len(set(job_filter.state or ())) == 1
    groups = f"{_OF_ONE_STATE}{of.where}" if is_one_state else f"{_ALL}{of.where}{_EACH}"
    totals = f"SELECT count(*), coalesce(sum(jobs), 0) FROM ({groups})"  # noqa: S608
    [(count, jobs)] = await database.execute_fetchall(totals, of.values)
    page = f"{groups} ORDER BY jobs DESC, service, type, cause LIMIT ? OFFSET ?"
    return Ranked(await _groups(database, page, (*of.values, limit, offset)), count, jobs)


def group_conditions(job_filter: JobFilter) -> Conditions:
    """Conditions on states, service and type."""
    return state_conditions(job_filter) + queue_conditions(job_filter)


def state_conditions(job_filter: JobFilter) -> Conditions:
    return one_of_states(job_filter.state or ())


def rank(groups: Sequence[Counted], offset: int, limit: int) -> Ranked:
    ordered = sorted(groups, key=lambda group: (-group.jobs, *group))
    jobs = sum(group.jobs for group in groups)
    return Ranked(ordered[offset : offset + limit], len(groups), jobs)


async def counted(database: aiosqlite.Connection, job_filter: JobFilter) -> list[Counted]:
    """The groups that match states, service, type, times and error, in no order."""
    of = group_conditions(job_filter)
    if job_filter.since is None and job_filter.until is None:
        groups = await _groups(database, f"{_ALL}{of.where}{_EACH}", of.values)
    else:
        parts = list(_changes(job_filter))
        changed = " UNION ALL ".join(part for each in parts for part in each.parts)
        query = (
            "SELECT service, type, cause, changed.jobs FROM (SELECT cause, sum(jobs) AS jobs "  # noqa: S608
            f"FROM ({changed}) GROUP BY cause HAVING sum(jobs) > 0) AS changed "
            f"JOIN ({_ALL}{of.where}{_EACH}) USING (cause)"
        )
        values = chain.from_iterable(each.values for each in parts)
        groups = await _groups(database, query, (*values, *of.values))
    if job_filter.error is not None:
        groups = await _with_error(database, job_filter, ErrorSearch(job_filter.error), groups)
    return groups


def window(job_filter: JobFilter) -> Conditions:
    """The conditions for the jobs of one group."""
    return state_conditions(job_filter) + in_any_state(job_filter)


def in_any_state(job_filter: JobFilter) -> Conditions:
    """The same without the states."""
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
    states = state_conditions(job_filter)
    days = states + Conditions(("minutes = ?",), (GROUP_SLOTS[0],))
    if job_filter.since is not None:
        since = microseconds(job_filter.since)
        days += Conditions(("slot >= ?",), (_slot(since, GROUP_SLOTS[0]),))
        yield from _of_day(since, "-", states)
    if job_filter.until is not None:
        until = microseconds(job_filter.until)
        days += Conditions(("slot < ?",), (_slot(until, GROUP_SLOTS[0]),))
        yield from _of_day(until, "", states)
    yield Conditions((_SLOTS.format(sign="") + days.where,), days.values)


def _of_day(moment: int, sign: str, states: Conditions) -> Iterator[Conditions]:
    """From the beginning of a day up to a moment, in ever shorter slots, then job by job."""
    for longer, minutes in pairwise(GROUP_SLOTS):
        first, end = _slot(moment, longer) * (longer // minutes), _slot(moment, minutes)
        of = Conditions(("minutes = ?", "slot >= ?", "slot < ?"), (minutes, first, end)) + states
        yield Conditions((_SLOTS.format(sign=sign) + of.where,), of.values)
    begin = _slot(moment, GROUP_SLOTS[-1]) * GROUP_SLOTS[-1] * MINUTE
    of = states + Conditions(("updated_at >= ?", "updated_at < ?"), (begin, moment))
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
    of = group_conditions(job_filter)
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
        query = _LISTED + _BY_TEXT.format(window=" AND ".join(of.parts))
    else:
        query = _LISTED + _BY_JOB.format(window=" AND ".join(of.parts))
    counted = await _groups(database, query, (listed, *of.values))
    return [group for group in counted if group.jobs]


async def _groups(
    database: aiosqlite.Connection, query: str, values: Iterable[Any]
) -> list[Counted]:
    rows = await database.execute_fetchall(query, tuple(values))
    return [Counted(row[0], row[1], row[2], row[3]) for row in rows]
