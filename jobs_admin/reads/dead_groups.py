"""Dead jobs by their queue and what killed them: how many, since when, and one to look at.

How each filter is answered:

- none, service, type: from `dead_counts`, in the order of the answer;
- since, until: from `dead_change_counts` by whole slots, and an index for the rest of a slot;
- error: from the same counts, for groups whose pattern tells that the text is in all of their
  errors or in none (error_search.py); of the others each text is looked at (`error_counts`);
- id prefix: from an index of the dead jobs, unless all of them have it;
- key, payload: by a look at the jobs that have it.

Each is exact. A question that takes too long is refused (QuestionTooLong).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from jobs_admin.projection.error_patterns import pattern_of
from jobs_admin.projection.rows import moment_of
from jobs_admin.reads.dead_counts import Counted, counted, rank, ranked_by_count, window
from jobs_admin.reads.job_filter import Conditions, Route, by_age, id_range, narrowest, of_queue
from jobs_admin.reads.readers import QUERY_TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

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


async def dead_groups(
    readers: Readers, wanted: JobFilter, *, offset: int, limit: int
) -> DeadGroups:
    """The most frequent first. Raises QuestionTooLong."""
    if wanted.is_impossible:
        return DeadGroups([], 0, 0)
    async with readers.snapshot(within=QUERY_TIMEOUT) as database:
        if wanted.id_prefix and await _every_dead_job_has(database, wanted.id_prefix):
            wanted = replace(wanted, id_prefix=None)
        if wanted.key or wanted.payload or wanted.id_prefix:
            changed = await _looked_at(database, wanted)
            groups = rank([each.group for each in changed], offset, limit)
            ends = _ends_at(wanted, groups.shown, changed)
        elif wanted.error is not None or wanted.since or wanted.until:
            groups = rank(await counted(database, wanted), offset, limit)
            ends = _ends(wanted, groups.shown)
        else:
            groups = await ranked_by_count(database, of_queue(wanted), offset, limit)
            ends = _ends(wanted, groups.shown)
        shown = await _shown(database, groups.shown, ends)
    return DeadGroups(shown, groups.count, groups.jobs)


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


async def _looked_at(database: aiosqlite.Connection, wanted: JobFilter) -> list[_Changed]:
    route, of = _route(wanted), of_queue(wanted)
    query = (
        "SELECT service, type, cause, found.jobs, first_at, last_at FROM ("  # noqa: S608
        "SELECT j.cause, count(*) AS jobs, min(j.updated_at) AS first_at, "
        f"max(j.updated_at) AS last_at FROM {route.source}{route.conditions.where} "
        f"GROUP BY j.cause) AS found JOIN dead_counts USING (cause){of.where}"
    )
    rows = await database.execute_fetchall(query, (*route.conditions.values, *of.values))
    return [_Changed(Counted(*row[:4]), *row[4:]) for row in map(tuple, rows)]


def _route(wanted: JobFilter) -> Route:
    """By the ids of dead jobs, where the index has all that is asked for."""
    if wanted.key or wanted.payload or wanted.error or not wanted.id_prefix:
        return narrowest(wanted)
    ids = Conditions(("j.state = 'dead'", "j.id >= ?", "j.id < ?"), id_range(wanted.id_prefix))
    return Route("jobs_projection AS j INDEXED BY dead_by_id", ids + window(wanted))


def _ends(wanted: JobFilter, groups: Sequence[Counted]) -> Conditions:
    """A query for when the job of each group died that changed first, and for the last one."""
    of = window(wanted)
    narrowed = "".join(f" AND {part}" for part in of.parts)
    query = (
        f"WITH shown (of_cause) AS (VALUES {_marks('(?)', groups)}) SELECT of_cause, "  # noqa: S608
        f"(SELECT j.ended_at {_OF_GROUP}{narrowed} ORDER BY j.updated_at LIMIT 1), "
        f"(SELECT j.job {_OF_GROUP}{narrowed} ORDER BY j.updated_at DESC LIMIT 1) FROM shown"
    )
    causes = (group.cause for group in groups)
    return Conditions((query,), (*causes, *of.values, *of.values))


def _ends_at(
    wanted: JobFilter, groups: Sequence[Counted], changed: Sequence[_Changed]
) -> Conditions:
    """The same where the times are known already."""
    times = {each.group.cause: (each.first_at, each.last_at) for each in changed}
    of = by_age(wanted).conditions
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
) -> list[DeadGroup]:
    """Texts are folded to one case in the counts; the example has its error as it was."""
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
) -> DeadGroup:
    return DeadGroup(
        group.service,
        group.type,
        None if error is None else pattern_of(error),
        group.jobs,
        moment_of(oldest),
        moment_of(died_at),
        example_id,
    )
