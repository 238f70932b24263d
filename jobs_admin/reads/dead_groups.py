"""Dead jobs, grouped by queue and error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs_admin.api.views.dead_groups import DeadGroups, DeadGroupView
from jobs_admin.projection.rows import group_id
from jobs_admin.reads.error_groups import FoundGroup, find_groups
from jobs_admin.reads.readers import QUERY_TIMEOUT
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from jobs_admin.api.job_filter import JobFilter
    from jobs_admin.reads.readers import Readers


async def dead_groups(
    readers: Readers, job_filter: JobFilter, *, offset: int, limit: int
) -> DeadGroups:
    """The most frequent group first. Raises QueryTimeout."""
    of_dead = job_filter.model_copy(update={"state": [JobState.DEAD]})
    async with readers.snapshot(within=QUERY_TIMEOUT) as database:
        found = await find_groups(database, of_dead, offset=offset, limit=limit)
    return DeadGroups(
        entries=tuple(map(_view, found.shown)),
        count=found.count,
        offset=offset,
        limit=limit,
        jobs=found.jobs,
    )


def _view(group: FoundGroup) -> DeadGroupView:
    return DeadGroupView(
        service=group.service,
        type=group.type,
        error=group.error,
        jobs=group.jobs,
        oldest_at=group.oldest_at,
        newest_at=group.newest_at,
        example_id=group.example_id,
        group=group_id(group.cause),
    )
