"""`trellis-jobs workers`: the worker processes that run jobs."""

from __future__ import annotations

import typer

from jobs_admin.cli.option_groups import grouped
from jobs_admin.cli.workers.list import list_workers

workers = typer.Typer(help="List the workers that send heartbeats.", no_args_is_help=True)


# Without a callback, typer merges a group that has a single command with that command.
@workers.callback()
def _workers() -> None:
    """List the workers that send heartbeats."""


workers.command("list")(grouped(list_workers))
