"""`trellis-jobs console serve`: show jobs in a browser."""

from __future__ import annotations

import asyncio
import signal
from typing import Annotated

import typer

from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.render.output import print_text
from jobs_admin.cli.run import run
from jobs_admin.console.config import DEFAULT_PORT, ConsoleConfig
from jobs_admin.console.connections import open_connections
from jobs_admin.console.serving import console_serving
from jobs_admin.console.users import Role
from jobs_admin.http.probes import LOOPBACK
from trellis_jobs.worker.signals import handle_signals


def serve(
    options: ConnectionOptions,
    port: Annotated[
        int, typer.Option(help="Port of the web server; 0 is any free port.", min=0, max=65535)
    ] = DEFAULT_PORT,
    environment: Annotated[
        str, typer.Option(help="Name on the badge of every page, such as production.")
    ] = "",
) -> None:
    """Show the jobs of all services in a browser, and change them."""
    config = ConsoleConfig(host=LOOPBACK, port=port, environment=environment)
    run(_serve(config, options))


async def _serve(config: ConsoleConfig, options: ConnectionOptions) -> None:
    stop = asyncio.Event()
    access = options.connect_options()
    with handle_signals({signal.SIGTERM: stop.set, signal.SIGINT: stop.set}):
        async with (
            open_connections(dict.fromkeys(Role, access)) as connections,
            console_serving(config, connections) as address,
        ):
            print_text(f"the console is at {address}")
            await stop.wait()
