"""`trellis-jobs schedules get`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import orjson
from rich.console import RenderableType
from rich.table import Table

from jobs_admin.api.views.schedules import ScheduleDetailView, ScheduleRunView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.render.columns import Columns, Row, fit_table
from jobs_admin.cli.render.output import Output, console, one_line, print_json
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.render.times import ago, local_stamp, short_stamp
from jobs_admin.cli.run import run
from jobs_admin.cli.schedules.list import remarks
from jobs_admin.cli.schedules.names import ScheduleArgument, parse_schedule
from jobs_admin.cli.schedules.ticks import tick_table
from jobs_admin.cli.schedules.words import outcome_words
from trellis_jobs.environment import utc_now
from trellis_jobs.model.schedules.address import ScheduleAddress
from trellis_jobs.model.schedules.record import Origin

_RUNS: Final = Columns(
    names=("last runs", "job", "", "triggered by"),
    flexible="",
    dropped_first=("triggered by",),
)


def get(schedule: ScheduleArgument, output: Output, options: AdminConnectionOptions) -> None:
    """Show a schedule: its definition, its next ten ticks, and what became of its last ones."""
    run(_get(options, parse_schedule(schedule), output))


async def _get(options: AdminConnectionOptions, address: ScheduleAddress, output: Output) -> None:
    async with options.admin() as admin:
        show_schedule(await admin.schedules.get(address), output)


def show_schedule(schedule: ScheduleDetailView, output: Output) -> None:
    if output.json:
        print_json({"schedule": schedule})
        return
    for part in _parts(schedule, output, utc_now()):
        console().print(part)


def _parts(schedule: ScheduleDetailView, output: Output, now: datetime) -> Iterator[RenderableType]:
    facts = Table.grid(padding=(0, 2, 0, 0))
    for name, value in _facts(schedule, output, now):
        facts.add_row(name, Text(value))
    yield facts
    yield from remarks(schedule, output, now)
    if schedule.next_ticks:
        yield Text()
        if schedule.paused is not None and schedule.paused.until is None:
            yield Text("These ticks create no jobs until the schedule is resumed:", "yellow")
        yield tick_table(schedule, now)
    if schedule.runs:
        yield Text()
        yield _runs(schedule, output, now)


def _facts(
    schedule: ScheduleDetailView, output: Output, now: datetime
) -> Iterator[tuple[str, str]]:
    yield "schedule", schedule.address
    definition = schedule.definition
    if definition is None:
        return
    cron = f" [{definition.cron}]" if definition.cron else ""
    yield "when", f"{schedule.description}{cron}"
    if schedule.next is not None:
        at = schedule.next.at
        distance = "now" if at <= now else ago(at, now)
        yield "next", f"{distance}: {local_stamp(at)} local time, {short_stamp(at)}"
    elif schedule.paused is None:
        yield "next", "never: it has ended"
    is_declared = schedule.origin is Origin.CONTRACT
    code = f"in the code of service {schedule.service}"
    yield "defined", code if is_declared else f"at run time, by {schedule.by or 'its service'}"
    yield "missed ticks", schedule.on_missed_ticks or ""
    yield "previous job", f"if it has not ended, {schedule.on_overlap}"
    omitted = "too large to send" if "payload" in schedule.omitted else None
    yield "payload", omitted or orjson.dumps(schedule.payload).decode()
    yield "changed", output.time(schedule.updated_at, now)


def _runs(schedule: ScheduleDetailView, output: Output, now: datetime) -> Table:
    """The newest first."""
    rows = [_run(each, output, now) for each in reversed(schedule.runs)]
    return fit_table(_RUNS, rows, console().width)


def _run(each: ScheduleRunView, output: Output, now: datetime) -> Row:
    by = (each.by or "unknown") if each.triggered else ""
    return {
        "last runs": output.time(each.tick, now),
        "job": each.job_id or "",
        "": one_line(outcome_words(each)),
        "triggered by": by,
    }
