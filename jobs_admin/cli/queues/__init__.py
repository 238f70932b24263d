"""`trellis-jobs queues`: the backlog and the workers of each queue; pause and resume it."""

from __future__ import annotations

import typer

from jobs_admin.cli.option_groups import grouped
from jobs_admin.cli.queues.list import list_queues
from jobs_admin.cli.queues.pause import pause
from jobs_admin.cli.queues.resume import resume

queues = typer.Typer(
    help="List queues with their backlog, pause and resume them.", no_args_is_help=True
)
queues.command("list")(grouped(list_queues))
queues.command("pause")(grouped(pause))
queues.command("resume")(grouped(resume))
