"""`trellis-jobs dev`: a server, an admin runtime, services, and a view of what jobs go through."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from jobs_admin.cli.connection import ConnectionOptions, is_said
from jobs_admin.cli.dev.environment import USUAL_PORT, ground_at, own_ground
from jobs_admin.cli.dev.session import DEMO, Session
from jobs_admin.cli.exit_codes import Misused
from jobs_admin.cli.run import run
from jobs_admin.cli.service_loader import split_name
from trellis_jobs.jetstream.client.server_urls import are_loopback


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """Options: which services are run, and whether they are started again."""

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
            help="Start the apps again when a Python file below the current directory changes.",
        ),
    ] = True
    demo: Annotated[
        bool,
        typer.Option(
            envvar="TRELLIS_JOBS_DEMO",
            help="Run the demo service and create jobs for it, if no app is named.",
        ),
    ] = True
    rate: Annotated[
        float,
        typer.Option(envvar="TRELLIS_JOBS_RATE", help="Demo jobs to create, per second.", min=0.1),
    ] = 2.0

    @property
    def is_demo(self) -> bool:
        return self.demo and not self.app


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnServer:
    """Options: of a server of its own."""

    port: Annotated[
        int | None,
        typer.Option(
            envvar="TRELLIS_JOBS_PORT",
            help=f"Of its own server; 0 is any free one. Default: {USUAL_PORT} if that is free.",
            min=0,
            max=65535,
        ),
    ] = None
    data: Annotated[
        Path | None,
        typer.Option(
            envvar="TRELLIS_JOBS_DATA",
            help="Where its own server keeps its data; otherwise they are gone at the end.",
            metavar="DIR",
            file_okay=False,
        ),
    ] = None

    def check_wanted(self, reach: ConnectionOptions) -> None:
        if reach.is_told and (self.data, self.port) != (None, None):
            option = "--data" if self.data is not None else "--port"
            raise typer.BadParameter(
                f"{option} is for a server of its own: not together with --nats"
            )


def dev(ctx: typer.Context, reach: ConnectionOptions, played: Played, own: OwnServer) -> None:
    """Run a server, an admin runtime and a service, and watch its jobs.

    With --nats or --context it uses that server instead of one of its own. What only the
    environment names must be a server of this machine.
    """
    own.check_wanted(reach)
    if reach.is_told and not is_said(ctx):
        _check_own_machine(reach)
    for named in played.app or ():
        split_name(named)
    session = Session(
        ground=ground_at(reach) if reach.is_told else own_ground(own.data, own.port),
        apps=played.app or ([DEMO] if played.is_demo else []),
        reload=played.reload and not played.is_demo,
        rate=played.rate if played.is_demo else None,
    )
    run(session.run())


def _check_own_machine(reach: ConnectionOptions) -> None:
    """It makes streams and jobs: a variable that is set for other commands does not mean that."""
    access = reach.access()
    if not are_loopback(access.servers):
        raise Misused(
            f"the environment (NATS_URL or NATS_CONTEXT) names {access}, and dev would make "
            "streams, an admin runtime and jobs there: say --nats or --context if you mean that, "
            "or unset the variable for a server of its own"
        )
