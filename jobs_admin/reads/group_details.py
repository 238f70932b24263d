"""More about some groups of jobs: their states, application versions, and when they changed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from jobs_admin.api.views.dead_groups import ErrorGroups, ErrorGroupView
from jobs_admin.projection.counters import MINUTE
from jobs_admin.projection.rows import group_id, microseconds, moment_of
from jobs_admin.reads.error_groups import FoundGroup, find_groups
from jobs_admin.reads.group_counts import state_conditions
from jobs_admin.reads.job_filter import Conditions
from jobs_admin.reads.readers import QUERY_TIMEOUT
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import aiosqlite

    from jobs_admin.api.job_filter import JobFilter
    from jobs_admin.reads.readers import Readers

HOURS: Final = 24
MAX_VERSIONS: Final = 10
_MINUTES: Final = 60
_HOUR: Final = _MINUTES * MINUTE


@dataclass(slots=True)
class _Details:
    states: dict[JobState, int] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    hourly: list[int] = field(default_factory=lambda: [0] * HOURS)


async def error_groups(
    readers: Readers, job_filter: JobFilter, *, now: datetime, offset: int, limit: int
) -> ErrorGroups:
    """The most frequent group first. The filter names the states. Raises QueryTimeout."""
    end = microseconds(now) // _HOUR + 1
    async with readers.snapshot(within=QUERY_TIMEOUT) as database:
        found = await find_groups(database, job_filter, offset=offset, limit=limit)
        causes = [group.cause for group in found.shown]
        details = await _details(database, job_filter, causes, end) if causes else {}
    return ErrorGroups(
        entries=tuple(_view(group, details[group.cause]) for group in found.shown),
        count=found.count,
        offset=offset,
        limit=limit,
        jobs=found.jobs,
        hours_end_at=moment_of(end * _HOUR),
    )


async def _details(
    database: aiosqlite.Connection, job_filter: JobFilter, causes: Sequence[int], end: int
) -> dict[int, _Details]:
    """`end` is the first hour, since 1970, that is not shown."""
    found = {cause: _Details() for cause in causes}
    of = state_conditions(job_filter) + _one_of("cause", causes)

    async def rows(table: str, columns: str, *more: Conditions) -> Sequence[Any]:
        every = sum(more, of)
        query = f"SELECT {columns}, jobs FROM {table}{every.where}"  # noqa: S608 - our own names
        return list(await database.execute_fetchall(query, every.values))

    for cause, state, jobs in await rows("group_counts", "cause, state"):
        found[cause].states[JobState(state)] = jobs
    for cause, version, jobs in await rows("group_version_counts", "cause, app_version"):
        found[cause].versions[version] += jobs
    hours = Conditions(("minutes = ?",), (_MINUTES,)) + _one_of("slot", range(end - HOURS, end))
    for cause, slot, jobs in await rows("group_change_counts", "cause, slot", hours):
        found[cause].hourly[slot - end] += jobs
    return found


def _one_of(column: str, values: Sequence[int]) -> Conditions:
    return Conditions((f"{column} IN ({', '.join('?' * len(values))})",), tuple(values))


def _view(group: FoundGroup, details: _Details) -> ErrorGroupView:
    versions = sorted(details.versions, key=lambda version: (-details.versions[version], version))
    return ErrorGroupView(
        service=group.service,
        type=group.type,
        error=group.error,
        jobs=group.jobs,
        oldest_at=group.oldest_at,
        newest_at=group.newest_at,
        example_id=group.example_id,
        group=group_id(group.cause),
        states=details.states,
        app_versions=tuple(versions[:MAX_VERSIONS]),
        hourly=tuple(details.hourly),
    )
