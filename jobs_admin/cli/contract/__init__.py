"""`trellis-jobs contract`: show, compare and generate code from a service's contract."""

from __future__ import annotations

import typer

from jobs_admin.cli.contract.diff import diff
from jobs_admin.cli.contract.generate import generate
from jobs_admin.cli.contract.show import show
from jobs_admin.cli.option_groups import grouped

contract = typer.Typer(
    help="Show a service's contract, compare two versions, generate typed code from a manifest.",
    no_args_is_help=True,
)
contract.command("show")(grouped(show))
contract.command("diff")(grouped(diff))
contract.command("generate")(grouped(generate))
