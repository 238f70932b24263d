"""`trellis-jobs admin`: run the admin runtime, and preview its retention."""

from __future__ import annotations

import typer

from jobs_admin.cli.admin.due import due
from jobs_admin.cli.admin.serve import serve
from jobs_admin.cli.option_groups import grouped

admin = typer.Typer(
    help="Run the admin runtime, which serves and maintains the jobs of all services.",
    no_args_is_help=True,
)
admin.command()(grouped(serve))
admin.command()(grouped(due))
