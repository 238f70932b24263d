"""`trellis-jobs workers`: list the worker processes, and direct them."""

from __future__ import annotations

import typer

from jobs_admin.cli.option_groups import grouped
from jobs_admin.cli.workers.drain import drain
from jobs_admin.cli.workers.list import list_workers
from jobs_admin.cli.workers.quiet import quiet
from jobs_admin.cli.workers.resume import resume
from jobs_admin.cli.workers.terminate import terminate

workers = typer.Typer(
    help="List the worker processes; let them be quiet, resume, or stop.", no_args_is_help=True
)
workers.command("list")(grouped(list_workers))
workers.command("quiet")(grouped(quiet))
workers.command("resume")(grouped(resume))
workers.command("terminate")(grouped(terminate))
workers.command("drain")(grouped(drain))
