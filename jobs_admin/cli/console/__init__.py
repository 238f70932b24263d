"""`trellis-jobs console`: run the web console, and prepare its users file."""

from __future__ import annotations

import typer

from jobs_admin.cli.console.password import password, token
from jobs_admin.cli.console.serve import serve
from jobs_admin.cli.option_groups import grouped

console = typer.Typer(help="Run the web console.", no_args_is_help=True)
console.command()(grouped(serve))
console.command()(password)
console.command()(token)
