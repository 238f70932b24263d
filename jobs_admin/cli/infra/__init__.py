"""`trellis-jobs infra`: compare what jobs need on the server with what is there, and create it."""

from __future__ import annotations

import typer

from jobs_admin.cli.infra.apply import apply
from jobs_admin.cli.infra.check import check
from jobs_admin.cli.infra.plan import plan
from jobs_admin.cli.option_groups import grouped

infra = typer.Typer(
    help="Set up what jobs need on the server: streams, the key bucket, queue consumers.",
    no_args_is_help=True,
)
infra.command("plan")(grouped(plan))
infra.command("check")(grouped(check))
infra.command("apply")(grouped(apply))
