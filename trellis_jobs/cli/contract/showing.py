"""`trellis-jobs contract show`."""

from __future__ import annotations

from typing import Annotated

import typer

from trellis_jobs.cli.contract.documents import OutFile, as_text, declared, write


def show(
    service: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:SERVICE", help="A service, or its Jobs class; or a manifest file."
        ),
    ],
    out: OutFile = None,
) -> None:
    """Its manifest, as JSON: every queue with its types and settings."""
    write(as_text(declared(service)), out)
