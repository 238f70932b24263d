"""Who changes something, and why: both are recorded in the log."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from jobs_admin.cli.confirm import PANEL

Reason = Annotated[
    str | None,
    typer.Option(help="Why; it is recorded in the log.", metavar="TEXT", rich_help_panel=PANEL),
]
By = Annotated[
    str | None,
    typer.Option(
        help="Who; it is recorded in the log. Default: your login name.",
        metavar="NAME",
        rich_help_panel=PANEL,
    ),
]


def person(by: str | None) -> str | None:
    """As told, else whoever is logged in here; None where nobody is."""
    if by is not None:
        return by
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None
