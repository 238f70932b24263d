"""`trellis-jobs dev`: run a server, an admin runtime and services, and watch their jobs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from jobs_admin.cli.connection import ConnectionOptions, names_server_on_command_line
from jobs_admin.cli.dev.console import DevConsole
from jobs_admin.cli.dev.environment import DEFAULT_PORT, with_embedded_server, with_existing_server
from jobs_admin.cli.dev.session import DEMO, Session
from jobs_admin.cli.exit_codes import UsageError
from jobs_admin.cli.run import run
from jobs_admin.cli.service_loader import split_name
from jobs_admin.console.config import DEFAULT_PORT as DEFAULT_CONSOLE_PORT
from trellis_jobs.jetstream.client.server_urls import are_loopback


@dataclass(frozen=True, slots=True, kw_only=True)
class AppOptions:
    """Options: which services to run, and whether to restart them."""

    app: Annotated[
        list[str] | None,
        typer.Option(
            envvar="TRELLIS_JOBS_APP",
            help="A service to run instead of the demo, as in app:service; may be repeated.",
            metavar="MODULE:SERVICE",
        ),
    ] = None
    reload: Annotated[
        bool,
        typer.Option(
            envvar="TRELLIS_JOBS_RELOAD",
            help="Restart the apps when a Python file in the current directory or below changes.",
        ),
    ] = True
    demo: Annotated[
        bool,
        typer.Option(
            envvar="TRELLIS_JOBS_DEMO",
            help="Without --app, run the demo service and create jobs for it.",
        ),
    ] = True
    rate: Annotated[
        float,
        typer.Option(
            envvar="TRELLIS_JOBS_RATE", help="Number of demo jobs to create per second.", min=0.1
        ),
    ] = 2.0

    @property
    def is_demo(self) -> bool:
        return self.demo and not self.app


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedServerOptions:
    """Options of the embedded server."""

    port: Annotated[
        int | None,
        typer.Option(
            envvar="TRELLIS_JOBS_PORT",
            help=f"Port of the embedded server; 0 is any free port. Default: {DEFAULT_PORT} if it "
            "is free.",
            min=0,
            max=65535,
        ),
    ] = None
    data: Annotated[
        Path | None,
        typer.Option(
            envvar="TRELLIS_JOBS_DATA",
            help="Data folder of the embedded server. Without it, the data are deleted at the end.",
            metavar="DIR",
            file_okay=False,
        ),
    ] = None

    def check(self, options: ConnectionOptions) -> None:
        if options.names_server and (self.data, self.port) != (None, None):
            option = "--data" if self.data is not None else "--port"
            raise typer.BadParameter(
                f"{option} is for the embedded server, which --nats and --context replace"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DevConsoleOptions:
    """Options of the web console."""

    console: Annotated[
        bool, typer.Option(envvar="TRELLIS_JOBS_CONSOLE", help="Serve the web console.")
    ] = True
    console_port: Annotated[
        int | None,
        typer.Option(
            envvar="TRELLIS_JOBS_CONSOLE_PORT",
            help="Port of the web console; 0 is any free port. Default: "
            f"{DEFAULT_CONSOLE_PORT} if it is free.",
            min=0,
            max=65535,
        ),
    ] = None
    open: Annotated[bool, typer.Option("--open", help="Open the web console in a browser.")] = False

    def made(self) -> DevConsole | None:
        return DevConsole(self.console_port, self.open) if self.console else None


def dev(
    ctx: typer.Context,
    options: ConnectionOptions,
    apps: AppOptions,
    embedded: EmbeddedServerOptions,
    web: DevConsoleOptions,
) -> None:
    """Run a server, an admin runtime and a service for development, and watch its jobs.

    With --nats or --context, the command uses that server instead of an embedded one. A server
    that only the environment names must be on this machine.
    """
    embedded.check(options)
    if options.names_server and not names_server_on_command_line(ctx):
        _check_own_machine(options)
    for name in apps.app or ():
        split_name(name)
    session = Session(
        environment=(
            with_existing_server(options)
            if options.names_server
            else with_embedded_server(embedded.data, embedded.port)
        ),
        apps=apps.app or ([DEMO] if apps.is_demo else []),
        reload=apps.reload and not apps.is_demo,
        rate=apps.rate if apps.is_demo else None,
        console=web.made(),
    )
    run(session.run())


def _check_own_machine(options: ConnectionOptions) -> None:
    """dev creates streams and jobs, and a variable may be set only for other commands."""
    server = options.connect_options()
    if not are_loopback(server.servers):
        raise UsageError(
            f"the environment (NATS_URL or NATS_CONTEXT) names {server}, where dev would create "
            "streams and jobs and run an admin runtime. Use --nats or --context if you want that, "
            "or unset the variable to use an embedded server"
        )
