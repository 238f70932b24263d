"""`trellis-jobs projection`: the operators' view of the log, looked at, made anew and checked."""

from __future__ import annotations

import typer

from jobs_admin.cli.option_groups import grouped
from jobs_admin.cli.projection.file import rebuild, status, verify
from jobs_admin.cli.projection.ignored import list_ignored

projection = typer.Typer(
    help="The projection of the log: a SQLite file that may be deleted, and is made again.",
    no_args_is_help=True,
)
projection.command("status")(grouped(status))
projection.command("rebuild")(grouped(rebuild))
projection.command("verify")(grouped(verify))
projection.command("ignored")(grouped(list_ignored))
