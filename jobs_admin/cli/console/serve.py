"""`trellis-jobs console serve`: show jobs in a browser."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.console.options import ConsoleOptions
from jobs_admin.cli.console.role_connections import role_connections
from jobs_admin.cli.console.running import console_running
from jobs_admin.cli.logs import LogFormat, LogLevel, set_up_logs
from jobs_admin.cli.options import Format, Level
from jobs_admin.cli.render.output import print_text
from jobs_admin.cli.run import run
from trellis_jobs.worker.signals import handle_signals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobs_admin.console.config import ConsoleConfig
    from jobs_admin.console.users import Role
    from trellis_jobs.jetstream.client.connect_options import ConnectOptions


def serve(
    options: ConnectionOptions,
    console: ConsoleOptions,
    log_format: Format = LogFormat.TEXT,
    log_level: Level = LogLevel.INFO,
) -> None:
    """Show the jobs of all services in a browser, and change them.

    --creds or --context is the NATS user of viewers. Each other role needs its own credentials:
    without them no user has the role. On a loopback address without --auth, all roles share one
    connection unless one of them has credentials.
    """
    set_up_logs(log_format, log_level)
    config = console.config()
    run(_serve(config, role_connections(console, options.connect_options())))


async def _serve(config: ConsoleConfig, access: Mapping[Role, ConnectOptions]) -> None:
    stop = asyncio.Event()
    with handle_signals({signal.SIGTERM: stop.set, signal.SIGINT: stop.set}):
        async with console_running(config, access) as address:
            print_text(f"the console is at {address}")
            await stop.wait()
