"""`trellis-jobs jobs list`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Final

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live

from jobs_admin.api.client import AdminClient
from jobs_admin.api.errors import Unexpected
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.views.jobs import JobPage
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.exit_codes import Exit
from jobs_admin.cli.filters import Filters, FilterWords, States, combined
from jobs_admin.cli.jobs.past import check_past_filter, list_jobs_at
from jobs_admin.cli.render.counts import count, how_many
from jobs_admin.cli.render.job_table import job_table
from jobs_admin.cli.render.output import Output, console, print_json, print_json_line
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.run import run
from jobs_admin.cli.time_options import At, past_moment
from trellis_jobs.errors import NotConfirmed, ServiceMissing

MAX_PAGE: Final = 500
_REFRESH_INTERVAL: Final = 1.0
# The header of the table, a blank line and the footer.
_OTHER_LINES: Final = 3


def list_jobs(
    filters: Filters,
    output: Output,
    options: AdminConnectionOptions,
    words: FilterWords = None,
    state: States = None,
    limit: Annotated[int, typer.Option(help="Maximum number of jobs.", min=1, max=MAX_PAGE)] = 50,
    all_: Annotated[
        bool,
        typer.Option(
            "--all",
            envvar="TRELLIS_JOBS_JOBS_LIST_ALL",
            help="List all matching jobs; with --json, one job per line.",
        ),
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Refresh the list every second until Ctrl-C.")
    ] = False,
    at: At = None,
) -> None:
    """List jobs of all services, newest first.

    With --at it lists the jobs that were in a state at that time, as they were then: first those
    that are still in it (Jobs.ListAt). Jobs that retention has removed since are not listed.
    """
    query = combined(filters.query(state), words)
    if at is not None:
        if watch:
            raise typer.BadParameter("it cannot be combined with --watch", param_hint="--at")
        check_past_filter(query)
        run(list_jobs_at(options, past_moment(at), query, None if all_ else limit, output))
    elif watch:
        _check_watchable(output, all_=all_)
        run(_watch(options, query, limit, output), when_interrupted=Exit.OK)
    elif all_:
        run(_list_all(options, query, output))
    else:
        run(_list(options, query, limit, output))


def _check_watchable(output: Output, *, all_: bool) -> None:
    if output.json or all_:
        raise typer.BadParameter("it cannot be combined with --json or --all", param_hint="--watch")
    if not console().is_terminal:
        raise typer.BadParameter(
            "it needs a terminal; use `trellis-jobs jobs tail` in a pipe",
            param_hint="--watch",
        )


async def _list(
    options: AdminConnectionOptions, query: JobFilter, limit: int, output: Output
) -> None:
    async with options.admin() as admin:
        page = await admin.list_jobs(query, limit=limit)
    if output.json:
        print_json(page)
        return
    screen = console()
    screen.print(job_table(page.entries, output, datetime.now(UTC)))
    screen.print(_footer(page), style="dim")


async def _list_all(options: AdminConnectionOptions, query: JobFilter, output: Output) -> None:
    """JSON is printed page by page; a table needs all rows for its widths."""
    async with options.admin() as admin:
        if output.json:
            async for job in admin.jobs(query, page=MAX_PAGE):
                print_json_line(job)
            return
        found = [job async for job in admin.jobs(query, page=MAX_PAGE)]
    screen = console()
    screen.print(job_table(found, output, datetime.now(UTC)))
    screen.print(how_many(len(found)), style="dim")


async def _watch(
    options: AdminConnectionOptions, query: JobFilter, limit: int, output: Output
) -> None:
    screen = console()
    async with options.admin() as admin:
        await admin.health()  # fail with an error message if no admin runtime answers at the start
        with Live(console=screen, screen=True, auto_refresh=False) as live:
            while True:
                live.update(await _frame(admin, query, limit, output, screen), refresh=True)
                await asyncio.sleep(_REFRESH_INTERVAL)


async def _frame(
    admin: AdminClient, query: JobFilter, limit: int, output: Output, screen: Console
) -> RenderableType:
    """Continue if the admin runtime restarts or rebuilds its projection."""
    try:
        page = await admin.list_jobs(query, limit=limit)
    except (ServiceMissing, NotConfirmed, Unexpected) as error:
        return Text(str(error), "yellow")
    now, max_rows = datetime.now(UTC), max(1, screen.height - _OTHER_LINES)
    shown = tuple(islice(page.entries, max_rows))
    table = job_table(shown, output, now)
    at = f"{now.astimezone():%H:%M:%S}   Ctrl-C stops"
    return Group(
        table, Text(), Text(f"{count(len(shown))} of {how_many(page.count)}   {at}", "dim")
    )


def _footer(page: JobPage) -> str:
    return f"{count(len(page.entries))} of {how_many(page.count)}"
