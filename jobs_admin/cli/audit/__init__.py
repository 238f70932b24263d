"""`trellis-jobs audit`: what operators did."""

from __future__ import annotations

import typer

from jobs_admin.cli.audit.list import list_audit
from jobs_admin.cli.option_groups import grouped

audit = typer.Typer(help="What operators did: who, when and why.", no_args_is_help=True)


@audit.callback()
def _commands() -> None:
    """The callback keeps typer from treating a single command as the whole group."""


audit.command("list")(grouped(list_audit))
