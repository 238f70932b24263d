"""`trellis-jobs contract`: what a service promises, what a change of it means, and its types."""

from __future__ import annotations

import typer

from trellis_jobs.cli.contract.diffing import diff
from trellis_jobs.cli.contract.generating import generate
from trellis_jobs.cli.contract.showing import show
from trellis_jobs.cli.option_groups import grouped

contract = typer.Typer(
    help="A service's contract: its manifest, what a change of it means, typed code from it.",
    no_args_is_help=True,
)
contract.command("show")(grouped(show))
contract.command("diff")(grouped(diff))
contract.command("generate")(grouped(generate))
