"""`trellis-jobs dlq list`: each dead job, or what they died of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Final

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from jobs_admin.client import JobQuery
from jobs_admin.views.dead_groups import DeadGroupView
from jobs_admin.views.jobs import JobView
from trellis_jobs.cli.filters import Filters
from trellis_jobs.cli.reach import Reach
from trellis_jobs.cli.running import run
from trellis_jobs.cli.showing.counts import how_many
from trellis_jobs.cli.showing.output import Output, console, one_line, print_json, table
from trellis_jobs.surroundings import utc_now

_WIDE: Final = 100
_SHORTEST_QUEUE: Final = 12


def list_dead(
    filters: Filters,
    output: Output,
    reach: Reach,
    group: Annotated[
        bool,
        typer.Option("--group", help="By queue and error, the most frequent first."),
    ] = False,
    limit: Annotated[int, typer.Option(help="So many at most.", min=1, max=500)] = 50,
) -> None:
    """Dead jobs, newest first."""
    program = _list_groups if group else _list
    run(program(reach, filters.query(), limit, output))


async def _list(reach: Reach, query: JobQuery, limit: int, output: Output) -> None:
    async with reach.admin() as admin:
        page = await admin.list_dead(query, limit=limit)
    if output.json:
        print_json(page)
        return
    out = console()
    if page.entries:
        out.print(dead_table(page.entries, output, utc_now(), is_wide=out.width >= _WIDE))
    out.print(f"{len(page.entries):,} of {how_many(page.count, 'dead')}", style="dim")


async def _list_groups(reach: Reach, query: JobQuery, limit: int, output: Output) -> None:
    async with reach.admin() as admin:
        page = await admin.group_dead(query, limit=limit)
    if output.json:
        print_json(page)
        return
    out = console()
    if page.entries:
        out.print(group_table(page.entries, output, utc_now(), width=out.width))
    shown = f"{len(page.entries):,} of {page.count:,} groups"
    out.print(f"{shown}, {how_many(page.jobs, 'dead')} in all", style="dim")


def dead_table(jobs: Iterable[JobView], output: Output, now: datetime, *, is_wide: bool) -> Table:
    """What killed a job is worth more than how often it was tried: that is left out first."""
    tries = ("tries",) if is_wide else ()
    shown = table("id", "queue", "died", *tries, "error", elastic=("error", "queue"))
    for job in jobs:
        shown.add_row(
            job.id,
            one_line(f"{job.service}/{job.type}"),
            output.time(job.completed_at or job.updated_at, now),
            *(f"{job.tries}/{job.max_tries}" for _ in tries),
            one_line(job.last_error),
        )
    return shown


def group_table(
    groups: Sequence[DeadGroupView], output: Output, now: datetime, *, width: int
) -> Table:
    """Two lines each: since when and until when, and under the error a job that has it."""
    shown = table("jobs", "queue", "died", "error", right=("jobs",), elastic=("error", "queue"))
    shown.columns[1].max_width = max(_SHORTEST_QUEUE, width - _beside_the_queue(groups, output))
    for group in groups:
        shown.add_row(
            f"{group.jobs:,}",
            one_line(f"{group.service}/{group.type}"),
            f"{output.time(group.oldest_at, now)}\n{output.time(group.newest_at, now)}",
            Group(one_line(group.error or "(none)"), Text(group.example_id, "dim")),
        )
    return shown


def _beside_the_queue(groups: Sequence[DeadGroupView], output: Output) -> int:
    """What a line needs so that ids are whole: how many jobs, when they died, and an id."""
    jobs, time = 9, 26 if output.absolute else 16
    return jobs + time + max(len(group.example_id) for group in groups) + 4
