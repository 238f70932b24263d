"""`trellis-jobs dev`: a server, the demo service, and a view of what its jobs go through."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trellis_jobs.cli.dev.session import Session
from trellis_jobs.cli.reach import Reach
from trellis_jobs.cli.running import run


def dev(
    reach: Reach,
    data: Annotated[
        Path | None,
        typer.Option(
            envvar="TRELLIS_JOBS_DATA",
            help="Where its own server keeps its data; otherwise they are gone at the end.",
            metavar="DIR",
            file_okay=False,
        ),
    ] = None,
    rate: Annotated[
        float,
        typer.Option(envvar="TRELLIS_JOBS_RATE", help="Demo jobs to create, per second.", min=0.1),
    ] = 2.0,
) -> None:
    """Run a server, a demo service and its worker, and watch its jobs.

    With --nats or --context it uses that server instead of one of its own.
    """
    access = reach.access() if reach.is_told else None
    if access is not None and data is not None:
        raise typer.BadParameter("--data is for a server of its own: not together with --nats")
    run(Session(access=access, data=data, rate=rate).run())
