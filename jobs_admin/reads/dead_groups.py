"""Dead jobs by their queue and what killed them: how many, since when, and one to look at.

Which filters the projector's counts serve, and which need a look at jobs:

- none, service, type: `dead_counts`, in the order of the answer;
- since, until: `dead_change_counts` by whole slots of ten minutes, and an index for the rest of the
  first and the last slot;
- error: `error_counts`, one row for each text instead of one for each job;
- key, id prefix, payload, and an error with a time: the jobs themselves, by the narrowest index.

Each is exact. A question that takes too long is refused (QuestionTooLong).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from jobs_admin.projection.error_patterns import pattern_of
from jobs_admin.projection.rows import microseconds, moment_of
from jobs_admin.reads.job_counts import begin_of_slot, slot_of
from jobs_admin.reads.job_filter import Conditions, narrowest, of_queue, status
from jobs_admin.reads.readers import QUERY_TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    import aiosqlite

    from jobs_admin.api.job_filter import JobFilter
    from jobs_admin.reads.readers import Readers

T = TypeVar("T")
# Service, type, cause, and how many.
_Counted = tuple[str, str, int, int]

_OF_GROUP: Final = (
    "FROM jobs_projection AS j INDEXED BY dead_by_cause WHERE state = 'dead' "
    "AND j.service = shown.service AND j.type = shown.type AND j.cause = shown.cause{window} "
    "ORDER BY j.updated_at {order} LIMIT 1"
)
_LOOKED_AT: Final = (
    "SELECT service, type, cause, count(*), min(ended_at), max(job) "
    "FROM {source}{where} GROUP BY service, type, cause"
)
_EXAMPLES: Final = (
    "SELECT job, id, ended_at, json_extract(document, '$.lastError') FROM jobs_projection "
    "WHERE job IN ({marks})"
)


@dataclass(frozen=True, slots=True)
class DeadGroup:
    """`error` is None of jobs that say none; `example_id` is of the job that died last."""

    service: str
    type: str
    error: str | None
    jobs: int
    oldest_at: datetime
    newest_at: datetime
    example_id: str


@dataclass(frozen=True, slots=True)
class DeadGroups:
    """`count` is of all groups, `jobs` of the jobs in all of them."""

    groups: list[DeadGroup]
    count: int
    jobs: int


@dataclass(frozen=True, slots=True)
class _Group:
    service: str
    type: str
    cause: int
    jobs: int
    oldest: int
    example: int


@dataclass(frozen=True, slots=True)
class _Ranked(Generic[T]):
    """The groups of one page, and what all of them come to."""

    shown: list[T]
    count: int
    jobs: int


async def dead_groups(
    readers: Readers, wanted: JobFilter, *, offset: int, limit: int
) -> DeadGroups:
    """The most frequent first. Raises QuestionTooLong."""
    if wanted.is_impossible:
        return DeadGroups([], 0, 0)
    async with readers.snapshot(within=QUERY_TIMEOUT) as database:
        if wanted.is_counted and wanted.error is None:
            counted = await _in_order(database, of_queue(wanted), offset, limit)
            ranked = await _with_ends(database, wanted, counted)
        elif wanted.is_counted or wanted.is_counted_by_change:
            counts = _changes(wanted) if wanted.error is None else _texts(wanted)
            counted = await _sorted(database, counts, offset, limit)
            ranked = await _with_ends(database, wanted, counted)
        else:
            ranked = await _looked_at(database, wanted, offset, limit)
        groups = await _with_examples(database, ranked.shown)
    return DeadGroups(groups, ranked.count, ranked.jobs)


async def _in_order(
    database: aiosqlite.Connection, of: Conditions, offset: int, limit: int
) -> _Ranked[_Counted]:
    """However many groups there are, few are read: an index has them in this order."""
    totals = f"SELECT count(*), coalesce(sum(jobs), 0) FROM dead_counts{of.where}"  # noqa: S608
    [(count, jobs)] = await database.execute_fetchall(totals, of.values)
    page = (
        f"SELECT service, type, cause, jobs FROM dead_counts{of.where} "  # noqa: S608
        "ORDER BY jobs DESC, service, type, cause LIMIT ? OFFSET ?"
    )
    rows = await database.execute_fetchall(page, (*of.values, limit, offset))
    return _Ranked([(row[0], row[1], row[2], row[3]) for row in rows], count, jobs)


async def _sorted(
    database: aiosqlite.Connection, counts: Conditions, offset: int, limit: int
) -> _Ranked[_Counted]:
    """Counts that have to be summed first are summed once, for the page and for the totals."""
    [query] = counts.parts
    groups: list[_Counted] = [
        (row[0], row[1], row[2], row[3])
        for row in await database.execute_fetchall(query, counts.values)
    ]
    groups.sort(key=lambda group: (-group[3], *group[:3]))
    shown = groups[offset : offset + limit]
    return _Ranked(shown, len(groups), sum(jobs for *_, jobs in groups))


def _texts(wanted: JobFilter) -> Conditions:
    of = status(wanted)
    query = (
        f"SELECT service, type, cause, sum(jobs) AS jobs FROM error_counts{of.where} "  # noqa: S608
        "GROUP BY service, type, cause"
    )
    return Conditions((query,), of.values)


def _changes(wanted: JobFilter) -> Conditions:
    """Whole slots of time, less what came before in the first, and what comes in the last."""
    since, until, queue = wanted.since, wanted.until, of_queue(wanted)
    slots = queue
    edges: list[Conditions] = []
    if since is not None:
        slots += Conditions(("slot >= ?",), (slot_of(since),))
        edges.append(_edge("-1", begin_of_slot(since), since, queue))
    if until is not None:
        slots += Conditions(("slot < ?",), (slot_of(until),))
        edges.append(_edge("1", begin_of_slot(until), until, queue))
    whole = f"SELECT service, type, cause, jobs FROM dead_change_counts{slots.where}"  # noqa: S608
    parts = [Conditions((whole,), slots.values), *edges]
    query = (
        "SELECT service, type, cause, sum(jobs) AS jobs FROM ("  # noqa: S608
        + " UNION ALL ".join(part for each in parts for part in each.parts)
        + ") GROUP BY service, type, cause HAVING sum(jobs) > 0"
    )
    return Conditions((query,), tuple(chain.from_iterable(each.values for each in parts)))


def _edge(each: str, since: datetime, until: datetime, queue: Conditions) -> Conditions:
    within = Conditions(
        ("state = 'dead'", "updated_at >= ?", "updated_at < ?"),
        (microseconds(since), microseconds(until)),
    )
    of = within + queue
    query = (
        f"SELECT service, type, cause, {each} AS jobs "  # noqa: S608 - our own number
        f"FROM jobs_projection INDEXED BY jobs_by_change{of.where}"
    )
    return Conditions((query,), of.values)


async def _with_ends(
    database: aiosqlite.Connection, wanted: JobFilter, counted: _Ranked[_Counted]
) -> _Ranked[_Group]:
    ends = await _ends(database, wanted, [group[:3] for group in counted.shown])
    shown = [
        _Group(service, of_type, cause, jobs, *ends[service, of_type, cause])
        for service, of_type, cause, jobs in counted.shown
    ]
    return _Ranked(shown, counted.count, counted.jobs)


async def _ends(
    database: aiosqlite.Connection, wanted: JobFilter, groups: Sequence[tuple[Any, ...]]
) -> dict[tuple[str, str, int], tuple[int, int]]:
    """Of each group, when the job died that changed first, and the number of the last one."""
    if not groups:
        return {}
    window = _window(wanted)
    narrowed = "".join(f" AND {part}" for part in window.parts)
    marks = ", ".join(["(?, ?, ?)"] * len(groups))
    query = (
        f"WITH shown (service, type, cause) AS (VALUES {marks}) SELECT service, type, cause, "  # noqa: S608
        f"(SELECT j.ended_at {_OF_GROUP.format(window=narrowed, order='ASC')}), "
        f"(SELECT j.job {_OF_GROUP.format(window=narrowed, order='DESC')}) FROM shown"
    )
    values = (*chain.from_iterable(groups), *window.values, *window.values)
    rows = await database.execute_fetchall(query, values)
    return {(row[0], row[1], row[2]): (row[3], row[4]) for row in rows}


def _window(wanted: JobFilter) -> Conditions:
    """What narrows the jobs of one group."""
    found = Conditions()
    if wanted.since is not None:
        found += Conditions(("j.updated_at >= ?",), (microseconds(wanted.since),))
    if wanted.until is not None:
        found += Conditions(("j.updated_at < ?",), (microseconds(wanted.until),))
    if wanted.error is not None:
        found += Conditions(("instr(j.error, ?) > 0",), (wanted.error.casefold(),))
    return found


async def _looked_at(
    database: aiosqlite.Connection, wanted: JobFilter, offset: int, limit: int
) -> _Ranked[_Group]:
    route = narrowest(wanted)
    query = _LOOKED_AT.format(source=route.source, where=route.conditions.where)
    rows: Iterable[Any] = await database.execute_fetchall(query, route.conditions.values)
    groups = sorted(
        (_Group(*row) for row in rows),
        key=lambda group: (-group.jobs, group.service, group.type, group.cause),
    )
    return _Ranked(
        groups[offset : offset + limit], len(groups), sum(group.jobs for group in groups)
    )


async def _with_examples(
    database: aiosqlite.Connection, groups: Sequence[_Group]
) -> list[DeadGroup]:
    """Texts are folded to one case in the counts; the example has its error as it was."""
    query = _EXAMPLES.format(marks=", ".join("?" * len(groups)))
    numbers = [group.example for group in groups]
    rows = await database.execute_fetchall(query, numbers)
    examples = {row[0]: tuple(row[1:]) for row in rows}
    return [_shown(group, *examples[group.example]) for group in groups]


def _shown(group: _Group, example_id: str, died_at: int, error: str | None) -> DeadGroup:
    return DeadGroup(
        group.service,
        group.type,
        None if error is None else pattern_of(error),
        group.jobs,
        moment_of(group.oldest),
        moment_of(died_at),
        example_id,
    )
