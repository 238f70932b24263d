"""`trellis-jobs console`: run the web console."""

from __future__ import annotations

import typer

from jobs_admin.cli.console.serve import serve
from jobs_admin.cli.option_groups import grouped

console = typer.Typer(help="Run the web console.", no_args_is_help=True)


@console.callback()
def _group() -> None:
    """Keep `serve` a subcommand: typer would run a single command without its name."""


console.command()(grouped(serve))
