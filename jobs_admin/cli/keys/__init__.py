"""`trellis-jobs keys`: concurrency keys, with the jobs that hold them and wait for them."""

from __future__ import annotations

import typer

from jobs_admin.cli.keys.get import get
from jobs_admin.cli.keys.list import list_keys
from jobs_admin.cli.keys.release import release
from jobs_admin.cli.option_groups import grouped

keys = typer.Typer(
    help="Concurrency keys: list them, show their holders and waiting jobs, release them.",
    no_args_is_help=True,
)
keys.command("list")(grouped(list_keys))
keys.command("get")(grouped(get))
keys.command("release")(grouped(release))
