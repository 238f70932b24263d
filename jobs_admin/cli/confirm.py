"""Confirmation before a change: `--yes`, or a question on the terminal."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from jobs_admin.cli.exit_codes import Exit, UsageError
from jobs_admin.cli.render.escape import harmless
from jobs_admin.cli.render.output import print_stderr

PANEL: Final = "Change"

Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.", rich_help_panel=PANEL)
]


def require_terminal_or_yes(yes: bool, action: str) -> None:
    """Fail early: a script must not stop half way to wait for an answer."""
    if not (yes or sys.stdin.isatty()):
        raise UsageError(
            f"not a terminal, cannot ask for confirmation: add --yes to {action}; nothing was "
            "changed"
        )


def confirm(question: str) -> None:
    """End the command unless the answer is yes."""
    if not typer.confirm(harmless(question), err=True):
        print_stderr("Nothing was changed.")
        raise typer.Exit(Exit.REFUSED)
