"""`trellis-jobs contract show`."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs_admin.cli.contract.documents import OutFile, as_text, declared, write
from jobs_admin.cli.render.output import JsonOutput


def show(
    service: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:SERVICE", help="A service, its Jobs class, or a manifest file."
        ),
    ],
    _output: JsonOutput,
    out: OutFile = None,
) -> None:
    """Print the manifest as JSON (with or without --json): every queue, its types and settings."""
    write(as_text(declared(service)), out)
