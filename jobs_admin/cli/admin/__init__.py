"""`trellis-jobs admin`: run what watches and steers the jobs of all services."""

from __future__ import annotations

import typer

from jobs_admin.cli.admin.due import due
from jobs_admin.cli.admin.serve import serve
from jobs_admin.cli.option_groups import grouped

admin = typer.Typer(help="The admin runtime: every job of every service.", no_args_is_help=True)
admin.command()(grouped(serve))
admin.command()(grouped(due))
