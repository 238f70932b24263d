"""Options that several commands have; each has an environment twin."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from trellis_jobs.cli.logs import LogFormat, LogLevel

DEFAULT_SERVER: Final = "nats://127.0.0.1:4222"

Server = Annotated[str, typer.Option(envvar="NATS_URL", help="Where the server is.", metavar="URL")]
Format = Annotated[LogFormat, typer.Option("--log-format", envvar="TRELLIS_JOBS_LOG_FORMAT")]
Level = Annotated[LogLevel, typer.Option("--log-level", envvar="TRELLIS_JOBS_LOG_LEVEL")]
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
