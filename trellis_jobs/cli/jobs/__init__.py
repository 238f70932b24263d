"""`trellis-jobs jobs`: look at jobs, follow them, steer them."""

from __future__ import annotations

import typer

from trellis_jobs.cli.jobs.creating import create_job
from trellis_jobs.cli.jobs.events import show_events
from trellis_jobs.cli.jobs.explaining import explain_job
from trellis_jobs.cli.jobs.getting import get_jobs
from trellis_jobs.cli.jobs.listing import list_jobs
from trellis_jobs.cli.jobs.log_lines import show_logs
from trellis_jobs.cli.jobs.steering import cancel, retry
from trellis_jobs.cli.jobs.tailing import tail
from trellis_jobs.cli.jobs.watching import watch
from trellis_jobs.cli.option_groups import grouped

jobs = typer.Typer(help="Look at jobs, follow them, steer them.", no_args_is_help=True)
jobs.command("list")(grouped(list_jobs))
jobs.command("get")(grouped(get_jobs))
jobs.command("events")(grouped(show_events))
jobs.command("explain")(grouped(explain_job))
jobs.command("logs")(grouped(show_logs))
jobs.command("tail")(grouped(tail))
jobs.command("watch")(grouped(watch))
jobs.command("cancel")(grouped(cancel))
jobs.command("retry")(grouped(retry))
jobs.command("create")(grouped(create_job))
