"""`trellis-jobs dev`: a server, an admin runtime, services, and a view of what jobs go through."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trellis_jobs.cli.dev.ground import USUAL_PORT, ground_at, own_ground
from trellis_jobs.cli.dev.session import DEMO, Session
from trellis_jobs.cli.loading import split_name
from trellis_jobs.cli.reach import Reach
from trellis_jobs.cli.running import run


def dev(
    reach: Reach,
    app: Annotated[
        list[str] | None,
        typer.Option(
            envvar="TRELLIS_JOBS_APP",
            help="A service to run instead of the demo, as in app:service; may be repeated.",
            metavar="MODULE:SERVICE",
        ),
    ] = None,
    reload: Annotated[
        bool,
        typer.Option(
            envvar="TRELLIS_JOBS_RELOAD",
            help="Start the apps again when a Python file below the current directory changes.",
        ),
    ] = True,
    demo: Annotated[
        bool,
        typer.Option(
            envvar="TRELLIS_JOBS_DEMO",
            help="Run the demo service and create jobs for it, if no app is named.",
        ),
    ] = True,
    rate: Annotated[
        float,
        typer.Option(envvar="TRELLIS_JOBS_RATE", help="Demo jobs to create, per second.", min=0.1),
    ] = 2.0,
    port: Annotated[
        int | None,
        typer.Option(
            envvar="TRELLIS_JOBS_PORT",
            help=f"Of its own server; 0 is any free one. Default: {USUAL_PORT} if that is free.",
            min=0,
            max=65535,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            envvar="TRELLIS_JOBS_DATA",
            help="Where its own server keeps its data; otherwise they are gone at the end.",
            metavar="DIR",
            file_okay=False,
        ),
    ] = None,
) -> None:
    """Run a server, an admin runtime and a service, and watch its jobs.

    With --nats or --context it uses that server instead of one of its own.
    """
    if reach.is_told and (data, port) != (None, None):
        own = "--data" if data is not None else "--port"
        raise typer.BadParameter(f"{own} is for a server of its own: not together with --nats")
    for named in app or ():
        split_name(named)
    is_demo = demo and not app
    session = Session(
        ground=ground_at(reach) if reach.is_told else own_ground(data, port),
        apps=app or ([DEMO] if is_demo else []),
        reload=reload and not is_demo,
        rate=rate if is_demo else None,
    )
    run(session.run())
