"""Jobs grouped by error."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypeVar

from jobs_admin.api.views.base import Page, View
from trellis_jobs.model.states import JobState


class DeadGroupView(View):
    """Dead jobs of one queue whose errors differ only where `error` has a `*`.

    `oldest_at` and `newest_at` are when the first and the last of them died; `example_id` is the id
    of one of them. `group` selects these jobs in filters, as `errorGroup`.
    `removed_at` is when retention removes the first of them, if it removes dead jobs.
    """

    service: str
    type: str
    error: str | None = None
    jobs: int
    oldest_at: datetime
    newest_at: datetime
    example_id: str
    group: str | None = None
    removed_at: datetime | None = None


class DeadGroups(Page[DeadGroupView]):
    """Largest groups first. `jobs` is the number of jobs in all groups, `count` that of groups."""

    jobs: int


class ErrorGroupView(DeadGroupView):
    """Jobs of one queue that an error put where they are: dead, failed, or to be tried again.

    `oldest_at` and `newest_at` are when the first and the last of them died, failed, or got their
    next try. `states` says how many are in each state. `app_versions` are the versions of the
    application in which their newest tries ran, those of the most jobs first. `hourly` has one
    number for each of the last 24 hours, the current one last: how many of the jobs last changed
    in it. These three are about all jobs of the group in the requested states, whatever else the
    filter has.
    """

    states: dict[JobState, int]
    app_versions: tuple[str, ...] = ()
    hourly: tuple[int, ...] = ()


class ErrorGroups(Page[ErrorGroupView]):
    """Largest groups first. `jobs` is the number of jobs in all groups, `count` that of groups.

    `hours_end_at` is the end of the last hour of `hourly`.
    """

    jobs: int
    hours_end_at: datetime


G = TypeVar("G", DeadGroups, ErrorGroups)


def kept_for(groups: G, retention: timedelta | None) -> G:
    """Groups of dead jobs with the times of their removal; None keeps dead jobs forever."""
    if retention is None:
        return groups
    entries = tuple(
        group.model_copy(update={"removed_at": group.oldest_at + retention})
        for group in groups.entries
    )
    return groups.model_copy(update={"entries": entries})
