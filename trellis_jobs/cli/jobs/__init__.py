"""`trellis-jobs jobs`: look at jobs, follow them, steer them."""

from __future__ import annotations

import typer

from trellis_jobs.cli.jobs.listing import list_jobs
from trellis_jobs.cli.jobs.steering import cancel, retry
from trellis_jobs.cli.option_groups import grouped

jobs = typer.Typer(help="Look at jobs, follow them, steer them.", no_args_is_help=True)
jobs.command("list")(grouped(list_jobs))
jobs.command("cancel")(grouped(cancel))
jobs.command("retry")(grouped(retry))
