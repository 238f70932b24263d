"""Options that several commands share."""

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
        help="Log as text, or as one JSON object per line.",
    ),
]
Level = Annotated[
    LogLevel,
    typer.Option(
        "--log-level", envvar="TRELLIS_JOBS_LOG_LEVEL", help="Lowest level that is logged."
    ),
]
ConnectTimeout = Annotated[
    float | None,
    typer.Option(
        "--connect-timeout",
        envvar="TRELLIS_JOBS_CONNECT_TIMEOUT",
        help="Seconds to wait at startup for a server with JetStream; 0 tries once. Default: wait "
        "without limit.",
        min=0,
        metavar="SECONDS",
    ),
]
HealthPort = Annotated[
    int | None,
    typer.Option(
        "--health-port",
        envvar="TRELLIS_JOBS_HEALTH_PORT",
        help="Serve /live and /ready over HTTP on this port (0: any free port).",
        min=0,
        max=65535,
    ),
]
HealthHost = Annotated[
    str,
    typer.Option(
        "--health-host",
        envvar="TRELLIS_JOBS_HEALTH_HOST",
        help="Listen address of --health-port; 0.0.0.0 or :: for probes from other machines.",
        metavar="ADDRESS",
    ),
]
SystemAccount = Annotated[
    str | None,
    typer.Option(
        "--system-account",
        help="Credentials of the system account: a URL with user and password, a credentials file "
        "or a seed file. Used to read the size of the cluster and its storage settings.",
        metavar="URL|FILE",
    ),
]
Database = Annotated[
    Path | None,
    typer.Option(
        "--db", envvar=PATH_VARIABLE, help="The projection file.", metavar="FILE", dir_okay=False
    ),
]
