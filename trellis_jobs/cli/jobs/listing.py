"""`trellis-jobs jobs list`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from jobs_admin.client import JobQuery
from jobs_admin.views.jobs import JobPage
from trellis_jobs.cli.filters import Filters
from trellis_jobs.cli.reach import Reach
from trellis_jobs.cli.running import run
from trellis_jobs.cli.showing.job_table import job_table
from trellis_jobs.cli.showing.output import Output, console, print_json
from trellis_jobs.model.states import JobState


def list_jobs(
    filters: Filters,
    output: Output,
    reach: Reach,
    state: Annotated[
        list[JobState] | None, typer.Option(help="In this state; may be repeated.")
    ] = None,
    limit: Annotated[int, typer.Option(help="So many at most.", min=1, max=500)] = 50,
) -> None:
    """Jobs of all services, newest first."""
    run(_list(reach, filters.query(state), limit, output))


async def _list(reach: Reach, query: JobQuery, limit: int, output: Output) -> None:
    async with reach.admin() as admin:
        page = await admin.list_jobs(query, limit=limit)
    if output.json:
        print_json(page)
        return
    console().print(job_table(page.entries, output, datetime.now(UTC)))
    console().print(_footer(page), style="dim")


def _footer(page: JobPage) -> str:
    return f"{len(page.entries)} of {page.count} jobs"
