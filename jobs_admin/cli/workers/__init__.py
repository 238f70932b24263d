"""`trellis-jobs workers`: the worker processes that run jobs."""

from __future__ import annotations

import typer

from jobs_admin.cli.option_groups import grouped
from jobs_admin.cli.workers.list import list_workers

workers = typer.Typer(help="Workers, as their heartbeats tell.", no_args_is_help=True)


# With one command only, typer would make it the group's own.
@workers.callback()
def _workers() -> None:
    """Workers, as their heartbeats tell."""


workers.command("list")(grouped(list_workers))
