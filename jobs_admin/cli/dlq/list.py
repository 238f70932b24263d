"""`trellis-jobs dlq list`: dead jobs, one by one or grouped by error."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Final

import typer
from rich.table import Table

from jobs_admin.api.views.dead_groups import DeadGroupView
from jobs_admin.api.views.jobs import JobView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.exit_codes import UsageError
from jobs_admin.cli.filters import Filters, FilterWords, combined
from jobs_admin.cli.page import show_page
from jobs_admin.cli.render.columns import Columns, Row, fit_table
from jobs_admin.cli.render.counts import count, how_many
from jobs_admin.cli.render.output import Output, console, one_line
from jobs_admin.cli.run import run
from trellis_jobs.environment import utc_now

_ID_LENGTH: Final = 26
# The error is more useful than the number of tries, which is dropped first.
_DEAD: Final = Columns(
    names=("id", "queue", "died", "tries", "error"),
    flexible="error",
    truncated="queue",
    dropped_first=("tries", "died"),
    min_flexible=20,
)
_GROUPS: Final = Columns(
    names=("jobs", "queue", "died", "error"),
    flexible="error",
    truncated="queue",
    dropped_first=("died",),
    right=("jobs",),
    min_flexible=_ID_LENGTH,
)


def list_dead(
    filters: Filters,
    output: Output,
    options: AdminConnectionOptions,
    words: FilterWords = None,
    group: Annotated[
        bool,
        typer.Option("--group", help="Group by queue and error, the largest group first."),
    ] = False,
    limit: Annotated[
        int, typer.Option(help="Maximum number of jobs or groups.", min=1, max=500)
    ] = 50,
) -> None:
    """List dead jobs, newest first."""
    query = combined(filters.query(), words)
    if query.state is not None:
        raise UsageError("state: the list has dead jobs only; `trellis-jobs jobs list` has others")
    if group:
        program = show_page(
            lambda admin: admin.group_dead(query, limit=limit),
            options,
            output,
            lambda page: group_table(page.entries, output, utc_now(), console().width),
            lambda page: f"{count(page.count)} groups, {how_many(page.jobs, 'dead')} in all",
        )
    else:
        program = show_page(
            lambda admin: admin.list_dead(query, limit=limit),
            options,
            output,
            lambda page: dead_table(page.entries, output, utc_now(), console().width),
            lambda page: how_many(page.count, "dead"),
        )
    run(program)


def dead_table(jobs: Iterable[JobView], output: Output, now: datetime, width: int) -> Table:
    return fit_table(_DEAD, [_dead_row(job, output, now) for job in jobs], width)


def _dead_row(job: JobView, output: Output, now: datetime) -> Row:
    return {
        "id": job.id,
        "queue": f"{job.service}/{job.type}",
        "died": output.time(job.completed_at or job.updated_at, now),
        "tries": f"{job.tries}/{job.max_tries}",
        "error": one_line(job.last_error),
    }


def group_table(
    groups: Iterable[DeadGroupView], output: Output, now: datetime, width: int
) -> Table:
    """Two lines per group: the oldest and the newest death, and an example below the error."""
    return fit_table(_GROUPS, [_group_row(group, output, now) for group in groups], width)


def _group_row(group: DeadGroupView, output: Output, now: datetime) -> Row:
    error = one_line(group.error or "(none)")
    return {
        "jobs": count(group.jobs),
        "queue": f"{group.service}/{group.type}",
        "died": f"{output.time(group.oldest_at, now)}\n{output.time(group.newest_at, now)}",
        "error": error.append("\n").append(group.example_id, "dim"),
    }
