"""`trellis-jobs console serve`: show jobs in a browser."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.console.options import ConsoleOptions
from jobs_admin.cli.console.role_connections import role_connections
from jobs_admin.cli.console.running import bundles_running, console_running
from jobs_admin.cli.job_reader.bundle_reader import load_bundle
from jobs_admin.cli.logs import LogFormat, LogLevel, set_up_logs
from jobs_admin.cli.options import Format, Level
from jobs_admin.cli.render.output import print_text
from jobs_admin.cli.run import run
from trellis_jobs.worker.signals import handle_signals

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager


def serve(
    options: ConnectionOptions,
    console: ConsoleOptions,
    bundle: Annotated[
        list[Path] | None,
        typer.Option(
            help="Show the job of this file, which `jobs export` wrote; needs no server. May be "
            "repeated, to compare jobs.",
            metavar="FILE",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    log_format: Format = LogFormat.TEXT,
    log_level: Level = LogLevel.INFO,
) -> None:
    """Show the jobs of all services in a browser, and change them.

    --creds or --context is the NATS user of viewers. Each other role needs its own credentials:
    without them no user has the role. On a loopback address without --auth, all roles share one
    connection unless one of them has credentials.

    With --bundle it shows exported jobs instead, and changes nothing.
    """
    set_up_logs(log_format, log_level)
    config = console.config()
    if bundle:
        run(_serve(bundles_running(config, [load_bundle(each) for each in bundle])))
    else:
        access = role_connections(console, options.connect_options())
        run(_serve(console_running(config, access)))


async def _serve(running: AbstractAsyncContextManager[str]) -> None:
    stop = asyncio.Event()
    with handle_signals({signal.SIGTERM: stop.set, signal.SIGINT: stop.set}):
        async with running as address:
            print_text(f"the console is at {address}")
            await stop.wait()
