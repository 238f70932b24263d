"""`trellis-jobs queues`: the backlog, the workers and the history of each queue; pause it."""

from __future__ import annotations

import typer

from jobs_admin.cli.option_groups import grouped
from jobs_admin.cli.queues.history import history
from jobs_admin.cli.queues.list import list_queues
from jobs_admin.cli.queues.pause import pause
from jobs_admin.cli.queues.resume import resume

queues = typer.Typer(
    help="List queues with their backlog and their history, pause and resume them.",
    no_args_is_help=True,
)
queues.command("list")(grouped(list_queues))
queues.command("history")(grouped(history))
queues.command("pause")(grouped(pause))
queues.command("resume")(grouped(resume))
