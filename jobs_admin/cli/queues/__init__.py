"""`trellis-jobs queues`: what waits where, and whether anybody works on it."""

from __future__ import annotations

import typer

from jobs_admin.cli.option_groups import grouped
from jobs_admin.cli.queues.list import list_all
from jobs_admin.cli.queues.pause_resume import pause_queue, resume_queue

queues = typer.Typer(help="What waits where; pause a queue, resume it.", no_args_is_help=True)
queues.command("list")(grouped(list_all))
queues.command("pause")(grouped(pause_queue))
queues.command("resume")(grouped(resume_queue))
