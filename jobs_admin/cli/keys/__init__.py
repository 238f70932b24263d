"""`trellis-jobs keys`: what runs and waits under a concurrency key."""

from __future__ import annotations

import typer

from jobs_admin.cli.keys.get import get
from jobs_admin.cli.keys.list import list_keys
from jobs_admin.cli.keys.release import release
from jobs_admin.cli.option_groups import grouped

keys = typer.Typer(
    help="Concurrency keys: who holds one, who waits for it, and how to free it.",
    no_args_is_help=True,
)
keys.command("list")(grouped(list_keys))
keys.command("get")(grouped(get))
keys.command("release")(grouped(release))
