"""`trellis-jobs jobs list`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Final

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live

from jobs_admin.api.client import AdminClient, JobQuery
from jobs_admin.api.errors import Unexpected
from jobs_admin.api.views.jobs import JobPage
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.exit_codes import Exit
from jobs_admin.cli.filters import Filters, States
from jobs_admin.cli.render.counts import count, how_many
from jobs_admin.cli.render.job_table import job_table
from jobs_admin.cli.render.output import Output, console, print_json, print_json_line
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.run import run
from trellis_jobs.errors import NotConfirmed, ServiceMissing

MOST_AT_ONCE: Final = 500
_BETWEEN_LOOKS: Final = 1.0
# The head of the table, a blank line and what stands below it.
_AROUND_THE_JOBS: Final = 3


def list_jobs(
    filters: Filters,
    output: Output,
    reach: AdminConnectionOptions,
    state: States = None,
    limit: Annotated[int, typer.Option(help="So many at most.", min=1, max=MOST_AT_ONCE)] = 50,
    all_: Annotated[
        bool,
        typer.Option(
            "--all",
            envvar="TRELLIS_JOBS_JOBS_LIST_ALL",
            help="All of them, page by page; with --json, one job a line.",
        ),
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again every second, until Ctrl-C.")
    ] = False,
) -> None:
    """Jobs of all services, newest first."""
    query = filters.query(state)
    if watch:
        _check_watchable(output, all_=all_)
        run(_watch(reach, query, limit, output), when_interrupted=Exit.OK)
    elif all_:
        run(_list_all(reach, query, output))
    else:
        run(_list(reach, query, limit, output))


def _check_watchable(output: Output, *, all_: bool) -> None:
    if output.json or all_:
        raise typer.BadParameter("it goes with neither --json nor --all", param_hint="--watch")
    if not console().is_terminal:
        raise typer.BadParameter(
            "it draws on a terminal, and this is none; `trellis-jobs jobs tail` suits a pipe",
            param_hint="--watch",
        )


async def _list(reach: AdminConnectionOptions, query: JobQuery, limit: int, output: Output) -> None:
    async with reach.admin() as admin:
        page = await admin.list_jobs(query, limit=limit)
    if output.json:
        print_json(page)
        return
    screen = console()
    screen.print(job_table(page.entries, output, datetime.now(UTC)))
    screen.print(_footer(page), style="dim")


async def _list_all(reach: AdminConnectionOptions, query: JobQuery, output: Output) -> None:
    """As they come, if one a line is asked for; a table must know all of its rows."""
    async with reach.admin() as admin:
        if output.json:
            async for job in admin.jobs(query, page=MOST_AT_ONCE):
                print_json_line(job)
            return
        found = [job async for job in admin.jobs(query, page=MOST_AT_ONCE)]
    screen = console()
    screen.print(job_table(found, output, datetime.now(UTC)))
    screen.print(how_many(len(found)), style="dim")


async def _watch(
    reach: AdminConnectionOptions, query: JobQuery, limit: int, output: Output
) -> None:
    screen = console()
    async with reach.admin() as admin:
        await admin.health()  # where nobody answers from the start, that is said and not drawn
        with Live(console=screen, screen=True, auto_refresh=False) as live:
            while True:
                live.update(await _look(admin, query, limit, output, screen), refresh=True)
                await asyncio.sleep(_BETWEEN_LOOKS)


async def _look(
    admin: AdminClient, query: JobQuery, limit: int, output: Output, screen: Console
) -> RenderableType:
    """An admin runtime that is away for a while, or rebuilds, is no reason to stop looking."""
    try:
        page = await admin.list_jobs(query, limit=limit)
    except (ServiceMissing, NotConfirmed, Unexpected) as error:
        return Text(str(error), "yellow")
    now, room = datetime.now(UTC), max(1, screen.height - _AROUND_THE_JOBS)
    shown = tuple(islice(page.entries, room))
    table = job_table(shown, output, now)
    at = f"{now.astimezone():%H:%M:%S}   Ctrl-C stops"
    return Group(
        table, Text(), Text(f"{count(len(shown))} of {how_many(page.count)}   {at}", "dim")
    )


def _footer(page: JobPage) -> str:
    return f"{count(len(page.entries))} of {how_many(page.count)}"
