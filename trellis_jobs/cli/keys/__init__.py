"""`trellis-jobs keys`: what runs and waits under a concurrency key."""

from __future__ import annotations

import typer

from trellis_jobs.cli.keys.getting import get
from trellis_jobs.cli.keys.listing import list_keys
from trellis_jobs.cli.keys.releasing import release
from trellis_jobs.cli.option_groups import grouped

keys = typer.Typer(
    help="Concurrency keys: who holds one, who waits for it, and how to free it.",
    no_args_is_help=True,
)
keys.command("list")(grouped(list_keys))
keys.command("get")(grouped(get))
keys.command("release")(grouped(release))
