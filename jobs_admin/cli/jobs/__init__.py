"""`trellis-jobs jobs`: list, inspect, follow, create and change jobs."""

from __future__ import annotations

import typer

from jobs_admin.cli.jobs.cancel import cancel
from jobs_admin.cli.jobs.create import create_job
from jobs_admin.cli.jobs.errors import errors
from jobs_admin.cli.jobs.events import show_events
from jobs_admin.cli.jobs.explain import explain_job
from jobs_admin.cli.jobs.export import export_job
from jobs_admin.cli.jobs.get import get_jobs
from jobs_admin.cli.jobs.list import list_jobs
from jobs_admin.cli.jobs.logs import show_logs
from jobs_admin.cli.jobs.reschedule import reschedule
from jobs_admin.cli.jobs.retry import retry
from jobs_admin.cli.jobs.run_local import run_local
from jobs_admin.cli.jobs.run_now import run_now
from jobs_admin.cli.jobs.suggest import suggest
from jobs_admin.cli.jobs.tail import tail
from jobs_admin.cli.jobs.watch import watch
from jobs_admin.cli.option_groups import grouped

jobs = typer.Typer(help="List, inspect, follow, create and change jobs.", no_args_is_help=True)
jobs.command("list")(grouped(list_jobs))
jobs.command("errors")(grouped(errors))
jobs.command("suggest")(grouped(suggest))
jobs.command("get")(grouped(get_jobs))
jobs.command("events")(grouped(show_events))
jobs.command("explain")(grouped(explain_job))
jobs.command("logs")(grouped(show_logs))
jobs.command("tail")(grouped(tail))
jobs.command("watch")(grouped(watch))
jobs.command("cancel")(grouped(cancel))
jobs.command("retry")(grouped(retry))
jobs.command("reschedule")(grouped(reschedule))
jobs.command("run-now")(grouped(run_now))
jobs.command("create")(grouped(create_job))
jobs.command("export")(grouped(export_job))
jobs.command("run-local")(grouped(run_local))
