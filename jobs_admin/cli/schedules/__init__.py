"""`trellis-jobs schedules`: when jobs are created, what became of the last ticks, and changes."""

from __future__ import annotations

import typer

from jobs_admin.cli.option_groups import grouped
from jobs_admin.cli.schedules.delete import delete
from jobs_admin.cli.schedules.get import get
from jobs_admin.cli.schedules.list import list_schedules
from jobs_admin.cli.schedules.next import next_ticks
from jobs_admin.cli.schedules.pause import pause
from jobs_admin.cli.schedules.put import put
from jobs_admin.cli.schedules.resume import resume
from jobs_admin.cli.schedules.trigger import trigger

schedules = typer.Typer(
    help="Schedules: list and show them, make, pause, resume, trigger and delete them.",
    no_args_is_help=True,
)
schedules.command("list")(grouped(list_schedules))
schedules.command("get")(grouped(get))
schedules.command("next")(grouped(next_ticks))
schedules.command("put")(grouped(put))
schedules.command("pause")(grouped(pause))
schedules.command("resume")(grouped(resume))
schedules.command("trigger")(grouped(trigger))
schedules.command("delete")(grouped(delete))
