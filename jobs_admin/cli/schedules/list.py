"""`trellis-jobs schedules list`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Final

import typer
from rich.table import Table

from jobs_admin.api.views.base import Page
from jobs_admin.api.views.schedules import ScheduleView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.filters import Service, Type
from jobs_admin.cli.render.columns import Columns, Row, fit_table
from jobs_admin.cli.render.counts import count
from jobs_admin.cli.render.output import Output, console, one_line, print_json
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.render.times import local_stamp, short_stamp
from jobs_admin.cli.run import run
from jobs_admin.cli.schedules.words import pause_words, run_words
from trellis_jobs.environment import utc_now

_COLUMNS: Final = Columns(
    names=("schedule", "when", "next", "local time", "UTC", "last run"),
    flexible="when",
    truncated="schedule",
    dropped_first=("last run", "UTC", "local time"),
    min_flexible=20,
)


def list_schedules(
    output: Output,
    options: AdminConnectionOptions,
    service: Service = None,
    type: Type = None,
    limit: Annotated[int, typer.Option(help="Maximum number of schedules.", min=1, max=500)] = 50,
) -> None:
    """List schedules: when they create jobs, the next tick, and the last run.

    Below the table, the command lists paused schedules, and overdue ones, which no worker of their
    service has fired.
    """
    run(_list(options, service, type, limit, output))


async def _list(
    options: AdminConnectionOptions,
    service: str | None,
    job_type: str | None,
    limit: int,
    output: Output,
) -> None:
    async with options.admin() as admin:
        page = await admin.schedules.list(service=service, type=job_type, limit=limit)
    if output.json:
        print_json(page)
        return
    now, screen = utc_now(), console()
    if page.entries:
        screen.print(schedule_table(page, output, now, screen.width))
    for schedule in page.entries:
        for words in remarks(schedule, output, now):
            screen.print(Text.assemble((f"{schedule.address}: ", "bold"), words))
    total = "1 schedule" if page.count == 1 else f"{count(page.count)} schedules"
    screen.print(f"{count(len(page.entries))} of {total}", style="dim")


def schedule_table(page: Page[ScheduleView], output: Output, now: datetime, width: int) -> Table:
    return fit_table(_COLUMNS, [_row(each, output, now) for each in page.entries], width)


def remarks(schedule: ScheduleView, output: Output, now: datetime) -> Iterator[Text]:
    """The most urgent first."""
    if schedule.problem is not None:
        yield Text(f"its record cannot be read: {schedule.problem}", "red")
    if schedule.queue_unknown:
        yield Text(f"no running worker knows queue {schedule.type}, so it is not fired", "red")
    if schedule.overdue and schedule.due_since is not None:
        since = output.time(schedule.due_since, now)
        yield Text(f"overdue: it was due {since}, and no worker has fired it", "red")
    if schedule.paused is not None:
        yield Text(pause_words(schedule.paused, output, now), "yellow")


def _row(schedule: ScheduleView, output: Output, now: datetime) -> Row:
    at = schedule.next.at if schedule.next is not None else None
    last = schedule.last_run
    return {
        "schedule": schedule.address,
        "when": one_line(schedule.description),
        "next": _next(schedule, output, now),
        "local time": "" if at is None else local_stamp(at),
        "UTC": "" if at is None else short_stamp(at),
        "last run": "" if last is None else run_words(last, output, now),
    }


def _next(schedule: ScheduleView, output: Output, now: datetime) -> str:
    if schedule.next is not None:
        return output.time(schedule.next.at, now)
    if schedule.problem is not None:
        return "unknown"
    return "paused" if schedule.paused is not None else "ended"
