"""`trellis-jobs dlq`: jobs that died, and wait for somebody."""

from __future__ import annotations

import typer

from trellis_jobs.cli.dlq.clearing import dismiss, replay
from trellis_jobs.cli.dlq.listing import list_dead
from trellis_jobs.cli.dlq.one import show
from trellis_jobs.cli.option_groups import grouped

dlq = typer.Typer(
    help="Jobs that died and wait for somebody: what killed them, run them again, dismiss them.",
    no_args_is_help=True,
)
dlq.command("list")(grouped(list_dead))
dlq.command("show")(grouped(show))
dlq.command("replay")(grouped(replay))
dlq.command("dismiss")(grouped(dismiss))
