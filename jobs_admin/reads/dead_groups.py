"""Dead jobs by their queue and what killed them: how many, since when, and one to look at."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from jobs_admin.projection.rows import moment_of
from jobs_admin.reads.error_patterns import pattern_of
from jobs_admin.reads.job_filter import Route, narrowest, standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    import aiosqlite

    from jobs_admin.reads.job_filter import JobFilter
    from jobs_admin.reads.readers import Readers

# Every text with its jobs: when the first and the last of them died, and the last one's number.
_TEXTS: Final = (
    "SELECT j.service, j.type, j.error, count(*), min(j.ended_at), max(j.ended_at), max(j.job) "
    "FROM {source}{where} GROUP BY j.service, j.type, j.error"
)
_EXAMPLES: Final = (
    "SELECT job, id, json_extract(document, '$.lastError') FROM jobs_projection "
    "WHERE job IN ({marks})"
)


@dataclass(slots=True)
class _Group:
    jobs: int
    oldest: int
    newest: int
    example: int


@dataclass(frozen=True, slots=True)
class DeadGroup:
    """`error` is None of jobs that say none; `example_id` is of the job that came last."""

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
    """The most frequent first."""
    route = _route(wanted)
    query = _TEXTS.format(source=route.source, where=route.conditions.where)
    async with readers.snapshot() as database:
        rows = await database.execute_fetchall(query, route.conditions.values)
        groups = await asyncio.to_thread(_grouped, rows)
        ranked = sorted(groups.items(), key=lambda each: (-each[1].jobs, each[0]))
        shown = ranked[offset : offset + limit]
        examples = await _examples(database, [group.example for _, group in shown])
    told = [
        _told(service, of_type, group, *examples[group.example])
        for (service, of_type, _), group in shown
    ]
    return DeadGroups(told, len(groups), sum(group.jobs for group in groups.values()))


def _route(wanted: JobFilter) -> Route:
    if wanted.is_counted and wanted.error is None:
        return Route("jobs_projection AS j INDEXED BY jobs_by_state", standing(wanted))
    return narrowest(wanted)


def _grouped(rows: Iterable[Any]) -> dict[tuple[str, str, str], _Group]:
    """Texts are folded to one case in these rows; the example has it as it was."""
    groups: dict[tuple[str, str, str], _Group] = {}
    for service, of_type, error, jobs, oldest, newest, example in rows:
        key = (service, of_type, pattern_of(error or ""))
        group = groups.get(key)
        if group is None:
            groups[key] = _Group(jobs, oldest, newest, example)
            continue
        group.jobs += jobs
        group.oldest = min(group.oldest, oldest)
        group.newest = max(group.newest, newest)
        group.example = max(group.example, example)
    return groups


async def _examples(
    database: aiosqlite.Connection, numbers: Sequence[int]
) -> dict[int, tuple[str, str | None]]:
    query = _EXAMPLES.format(marks=", ".join("?" * len(numbers)))
    return {
        number: (job_id, error)
        for number, job_id, error in await database.execute_fetchall(query, numbers)
    }


def _told(
    service: str, of_type: str, group: _Group, example_id: str, error: str | None
) -> DeadGroup:
    return DeadGroup(
        service,
        of_type,
        None if error is None else pattern_of(error),
        group.jobs,
        moment_of(group.oldest),
        moment_of(group.newest),
        example_id,
    )
