"""`trellis-jobs dlq`: dead jobs, which wait for an operator's decision."""

from __future__ import annotations

import typer

from jobs_admin.cli.dlq.dismiss import dismiss
from jobs_admin.cli.dlq.list import list_dead
from jobs_admin.cli.dlq.replay import replay
from jobs_admin.cli.dlq.show import show
from jobs_admin.cli.option_groups import grouped

dlq = typer.Typer(
    help="Dead jobs, which used up all of their tries: list, inspect, replay or dismiss them.",
    no_args_is_help=True,
)
dlq.command("list")(grouped(list_dead))
dlq.command("show")(grouped(show))
dlq.command("replay")(grouped(replay))
dlq.command("dismiss")(grouped(dismiss))
