"""The list of commands, and what an error looks like on the command line."""

from __future__ import annotations

import sys

import typer

from trellis_jobs.cli.admin import admin
from trellis_jobs.cli.dev import dev
from trellis_jobs.cli.dlq import dlq
from trellis_jobs.cli.doctor import doctor
from trellis_jobs.cli.exits import complain
from trellis_jobs.cli.infra import infra
from trellis_jobs.cli.jobs import jobs
from trellis_jobs.cli.keys import keys
from trellis_jobs.cli.option_groups import grouped
from trellis_jobs.cli.projection import projection
from trellis_jobs.cli.queues import queues
from trellis_jobs.cli.services import services
from trellis_jobs.cli.top import top
from trellis_jobs.cli.worker import worker
from trellis_jobs.cli.workers import workers
from trellis_jobs.errors import JobsError

app = typer.Typer(
    name="trellis-jobs",
    help="Event-sourced background jobs on NATS JetStream.",
    no_args_is_help=True,
    context_settings={"auto_envvar_prefix": "TRELLIS_JOBS"},
    pretty_exceptions_enable=False,
)
app.command()(grouped(worker))
app.command()(grouped(dev))
app.command()(grouped(services))
app.command()(grouped(top))
app.command()(grouped(doctor))
app.add_typer(jobs, name="jobs")
app.add_typer(dlq, name="dlq")
app.add_typer(keys, name="keys")
app.add_typer(workers, name="workers")
app.add_typer(queues, name="queues")
app.add_typer(infra, name="infra")
app.add_typer(admin, name="admin")
app.add_typer(projection, name="projection")


def main() -> None:
    try:
        app()
    except JobsError as error:
        sys.exit(complain(error))
