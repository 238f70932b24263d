"""`trellis-jobs dlq`: jobs that died, and wait for somebody."""

from __future__ import annotations

import typer

from jobs_admin.cli.dlq.list import list_dead
from jobs_admin.cli.dlq.replay_dismiss import dismiss, replay
from jobs_admin.cli.dlq.show import show
from jobs_admin.cli.option_groups import grouped

dlq = typer.Typer(
    help="Jobs that died and wait for somebody: what killed them, run them again, dismiss them.",
    no_args_is_help=True,
)
dlq.command("list")(grouped(list_dead))
dlq.command("show")(grouped(show))
dlq.command("replay")(grouped(replay))
dlq.command("dismiss")(grouped(dismiss))
