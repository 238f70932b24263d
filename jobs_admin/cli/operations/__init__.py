"""`trellis-jobs operations`: bulk changes that the admin runtime carries out."""

from __future__ import annotations

import typer

from jobs_admin.cli.operations.get import get
from jobs_admin.cli.operations.list import list_operations
from jobs_admin.cli.operations.stop import stop
from jobs_admin.cli.option_groups import grouped

operations = typer.Typer(
    help="Bulk changes that the admin runtime carries out: list, inspect and stop them.",
    no_args_is_help=True,
)
operations.command("list")(grouped(list_operations))
operations.command("get")(grouped(get))
operations.command("stop")(grouped(stop))
