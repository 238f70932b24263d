"""Options that several commands have; each has an environment twin."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

DEFAULT_SERVER: Final = "nats://127.0.0.1:4222"

Credentials = Annotated[
    Path | None,
    typer.Option(
        "--creds",
        envvar="NATS_CREDS",
        help="A NATS credentials file.",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        readable=True,
    ),
]
