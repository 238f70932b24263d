"""`trellis-jobs jobs errors`: jobs grouped by queue and error."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

import typer
from rich.table import Table

from jobs_admin.api.views.dead_groups import ErrorGroups, ErrorGroupView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.exit_codes import UsageError
from jobs_admin.cli.filters import Filters, FilterWords, States, combined
from jobs_admin.cli.page import show_page
from jobs_admin.cli.render.columns import Columns, Row, fit_table
from jobs_admin.cli.render.counts import count, how_many
from jobs_admin.cli.render.output import Output, console, one_line
from jobs_admin.cli.run import run
from trellis_jobs.environment import utc_now
from trellis_jobs.model.states import JobState

_STATES: Final = frozenset({JobState.FAILED, JobState.RETRY, JobState.DEAD})
_BARS: Final = "▁▂▃▄▅▆▇█"
_COLUMNS: Final = Columns(
    names=("jobs", "queue", "first, last", "24 hours", "error"),
    flexible="error",
    truncated="queue",
    dropped_first=("24 hours", "first, last"),
    right=("jobs",),
    min_flexible=26,
)


def errors(
    filters: Filters,
    output: Output,
    options: AdminConnectionOptions,
    words: FilterWords = None,
    state: States = None,
    limit: Annotated[int, typer.Option(help="Maximum number of groups.", min=1, max=500)] = 20,
) -> None:
    """Group jobs by queue and error: dead, failed, and those that wait for their next try.

    The largest group comes first. `*` in an error stands for what differs from job to job.
    """
    query = combined(filters.query(state), words)
    for other in set(query.state or ()) - _STATES:
        raise UsageError(f"state {other.value}: only failed, retry and dead jobs are grouped")
    run(
        show_page(
            lambda admin: admin.group_errors(query, limit=limit),
            options,
            output,
            lambda page: _table(page, output),
            lambda page: f"{count(page.count)} groups, {how_many(page.jobs)} in all",
        )
    )


def _table(page: ErrorGroups, output: Output) -> Table:
    now = utc_now()
    rows = [_row(group, output, now) for group in page.entries]
    return fit_table(_COLUMNS, rows, console().width)


def _row(group: ErrorGroupView, output: Output, now: datetime) -> Row:
    """Two lines for each group: an example and the application versions are below the error."""
    states = ", ".join(f"{count(jobs)} {state.value}" for state, jobs in group.states.items())
    error = one_line(group.error or "(none)")
    example = " ".join((group.example_id, *group.app_versions))
    return {
        "jobs": count(group.jobs),
        "queue": f"{group.service}/{group.type}\n{states}",
        "first, last": f"{output.time(group.oldest_at, now)}\n{output.time(group.newest_at, now)}",
        "24 hours": spark_line(group.hourly),
        "error": error.append("\n").append(example, "dim"),
    }


def spark_line(numbers: tuple[int, ...]) -> str:
    """One bar for each number; the highest is that of the largest number."""
    largest = max(numbers, default=0)
    return "".join(
        _BARS[(number * (len(_BARS) - 1) + largest - 1) // largest] if number else " "
        for number in numbers
    )
