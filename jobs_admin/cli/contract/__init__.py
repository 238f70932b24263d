"""`trellis-jobs contract`: what a service promises, what a change of it means, and its types."""

from __future__ import annotations

import typer

from jobs_admin.cli.contract.diff import diff
from jobs_admin.cli.contract.generate import generate
from jobs_admin.cli.contract.show import show
from jobs_admin.cli.option_groups import grouped

contract = typer.Typer(
    help="A service's contract: its manifest, what a change of it means, typed code from it.",
    no_args_is_help=True,
)
contract.command("show")(grouped(show))
contract.command("diff")(grouped(diff))
contract.command("generate")(grouped(generate))
