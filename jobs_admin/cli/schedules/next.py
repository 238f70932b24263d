"""`trellis-jobs schedules next`."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs_admin.api.inputs import MAX_TICKS
from jobs_admin.api.views.schedules import ScheduleDetailView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.render.output import JsonOutput, console, print_json, print_stderr
from jobs_admin.cli.run import run
from jobs_admin.cli.schedules.names import ScheduleArgument, parse_schedule
from jobs_admin.cli.schedules.ticks import tick_table
from trellis_jobs.environment import utc_now
from trellis_jobs.model.schedules.address import ScheduleAddress


def next_ticks(
    schedule: ScheduleArgument,
    output: JsonOutput,
    options: AdminConnectionOptions,
    count: Annotated[int, typer.Option(help="Number of ticks.", min=1, max=MAX_TICKS)] = 10,
) -> None:
    """Print the next ticks of a schedule, in its time zone, in local time and in UTC."""
    run(_next(options, parse_schedule(schedule), count, output))


async def _next(
    options: AdminConnectionOptions, address: ScheduleAddress, count: int, output: JsonOutput
) -> None:
    async with options.admin() as admin:
        found = await admin.schedules.get(address, ticks=count)
    if output.json:
        named = {"service": found.service, "type": found.type, "name": found.name}
        print_json({**named, "ticks": found.next_ticks})
        return
    note = _note(found)
    if note is not None:
        print_stderr(note)
    if found.next_ticks:
        console().print(tick_table(found, utc_now()))


def _note(schedule: ScheduleDetailView) -> str | None:
    if schedule.problem is not None:
        return f"The record of {schedule.address} cannot be read: {schedule.problem}"
    if not schedule.next_ticks:
        return f"{schedule.address} has no more ticks"
    if schedule.paused is not None and schedule.paused.until is None:
        return f"{schedule.address} is paused: these ticks create no jobs until it is resumed"
    return None
