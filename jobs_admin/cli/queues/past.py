"""`trellis-jobs queues list --at`: how many jobs were in which state at a past moment."""

from __future__ import annotations

from datetime import datetime

from rich.table import Table

from jobs_admin.api.views.history import StatsAtView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.render.columns import Columns, Row, fit_table
from jobs_admin.cli.render.counts import count
from jobs_admin.cli.render.output import Output, console, print_json
from jobs_admin.cli.render.times import local_stamp, stamp
from trellis_jobs.model.states import JobState


async def list_queues_at(options: AdminConnectionOptions, at: datetime, output: Output) -> None:
    async with options.admin() as admin:
        found = await admin.history.stats_at(at)
    if output.json:
        print_json(found)
        return
    screen = console()
    if found.types:
        screen.print(_table(found, screen.width))
    moment = stamp(found.at) if output.absolute else local_stamp(found.at)
    screen.print(f"as of {moment}{_caveat(found)}", style="dim")


def _table(found: StatsAtView, width: int) -> Table:
    states = [state.value for state in JobState if state.value in found.states]
    rows: list[Row] = [
        {
            "queue": f"{each.service}/{each.type}",
            **{state: count(each.states.get(state, 0)) for state in states},
        }
        for each in found.types
    ]
    return fit_table(Columns(names=["queue", *states], right=states), rows, width)


def _caveat(found: StatsAtView) -> str:
    is_complete = found.complete_since is None or found.complete_since <= found.at
    return "" if is_complete else "; without jobs that retention removed before the last rebuild"
