"""Nothing is changed before somebody said yes: on the command line, or when asked."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from jobs_admin.cli.exit_codes import Exit, Misused
from jobs_admin.cli.render.escape import harmless
from jobs_admin.cli.render.output import say

PANEL: Final = "The change"

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.", rich_help_panel=PANEL)]


def check_askable(yes: bool, what: str) -> None:
    """Before anything else: a script must not get half way and then wait for an answer."""
    if not (yes or sys.stdin.isatty()):
        raise Misused(f"nobody can be asked here whether to {what}: add --yes; nothing was changed")


def ask(question: str) -> None:
    """Ends the command unless the answer is yes."""
    if not typer.confirm(harmless(question), err=True):
        say("nothing was changed")
        raise typer.Exit(Exit.REFUSED)
