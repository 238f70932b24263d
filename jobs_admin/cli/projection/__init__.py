"""`trellis-jobs projection`: inspect, rebuild and verify the SQLite projection of the log."""

from __future__ import annotations

import typer

from jobs_admin.cli.option_groups import grouped
from jobs_admin.cli.projection.ignored import list_ignored
from jobs_admin.cli.projection.rebuild import rebuild
from jobs_admin.cli.projection.status import status
from jobs_admin.cli.projection.verify import verify

projection = typer.Typer(
    help="The projection of the log: a SQLite file that can be deleted and rebuilt at any time.",
    no_args_is_help=True,
)
projection.command("status")(grouped(status))
projection.command("rebuild")(grouped(rebuild))
projection.command("verify")(grouped(verify))
projection.command("ignored")(grouped(list_ignored))
