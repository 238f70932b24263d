"""The options `--by` and `--reason`: who makes a change and why, recorded in the log."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from jobs_admin.cli.confirm import PANEL

Reason = Annotated[
    str | None,
    typer.Option(help="Why; recorded in the log.", metavar="TEXT", rich_help_panel=PANEL),
]
By = Annotated[
    str | None,
    typer.Option(
        help="Who makes the change; recorded in the log. Default: your login name.",
        metavar="NAME",
        rich_help_panel=PANEL,
    ),
]


def actor_name(by: str | None) -> str | None:
    """Return `by`, or the login name. Returns None when neither is known."""
    if by is not None:
        return by
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None
