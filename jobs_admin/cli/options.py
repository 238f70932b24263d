"""Options that several commands have; each has an environment twin."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jobs_admin.cli.logs import LogFormat, LogLevel
from jobs_admin.config import PATH_VARIABLE

Format = Annotated[
    LogFormat,
    typer.Option(
        "--log-format",
        envvar="TRELLIS_JOBS_LOG_FORMAT",
        help="Lines for people, or one JSON object each.",
    ),
]
Level = Annotated[
    LogLevel,
    typer.Option(
        "--log-level", envvar="TRELLIS_JOBS_LOG_LEVEL", help="Log this and what is more urgent."
    ),
]
ConnectTimeout = Annotated[
    float | None,
    typer.Option(
        "--connect-timeout",
        envvar="TRELLIS_JOBS_CONNECT_TIMEOUT",
        help="Seconds to wait at the start for a server and its JetStream; 0 tries once. Default: "
        "wait without end.",
        min=0,
        metavar="SECONDS",
    ),
]
HealthPort = Annotated[
    int | None,
    typer.Option(
        "--health-port",
        envvar="TRELLIS_JOBS_HEALTH_PORT",
        help="Serve /live and /ready over HTTP on this port (0: any free one).",
        min=0,
        max=65535,
    ),
]
HealthHost = Annotated[
    str,
    typer.Option(
        "--health-host",
        envvar="TRELLIS_JOBS_HEALTH_HOST",
        help="Address that --health-port is opened on: 0.0.0.0 or :: for probes from outside.",
        metavar="ADDRESS",
    ),
]
SystemAccount = Annotated[
    str | None,
    typer.Option(
        "--system-account",
        help="A URL with user and password, a credentials file, or a seed, of the system account: "
        "it may ask how large the cluster is and how it stores.",
        metavar="URL|FILE",
    ),
]
Database = Annotated[
    Path | None,
    typer.Option(
        "--db", envvar=PATH_VARIABLE, help="The projection's file.", metavar="FILE", dir_okay=False
    ),
]
