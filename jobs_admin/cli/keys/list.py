"""`trellis-jobs keys list`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

import typer
from rich.table import Table

from jobs_admin.api.views.base import Page
from jobs_admin.api.views.keys import BusyKeyView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.filters import Service, Type
from jobs_admin.cli.page import show_page
from jobs_admin.cli.render.columns import Columns, Row, fit_table
from jobs_admin.cli.render.counts import count
from jobs_admin.cli.render.output import Output, console, one_line
from jobs_admin.cli.run import run
from trellis_jobs.environment import utc_now

_COLUMNS: Final = Columns(
    names=("queue", "key", "running", "waiting", "held by", "lease"),
    flexible="key",
    truncated="queue",
    dropped_first=("lease", "held by"),
    right=("running", "waiting"),
)


def list_keys(
    output: Output,
    options: AdminConnectionOptions,
    service: Service = None,
    type: Type = None,
    limit: Annotated[int, typer.Option(help="Maximum number of keys.", min=1, max=500)] = 50,
) -> None:
    """List keys that jobs hold or wait for, those for which the most jobs wait first."""
    run(
        show_page(
            lambda admin: admin.list_keys(service=service, type=type, limit=limit),
            options,
            output,
            lambda page: _table(page, output),
            lambda page: "1 key" if page.count == 1 else f"{count(page.count)} keys",
        )
    )


def _table(page: Page[BusyKeyView], output: Output) -> Table:
    now = utc_now()
    return fit_table(_COLUMNS, [_row(key, output, now) for key in page.entries], console().width)


def _row(key: BusyKeyView, output: Output, now: datetime) -> Row:
    """One line for each job that holds the key: the job, its worker, and the end of its lease."""
    holders = key.holders or ()
    return {
        "queue": f"{key.service}/{key.type}",
        "key": one_line(key.key),
        "running": count(key.active),
        "waiting": count(key.waiting),
        "held by": "\n".join(f"{each.job_id} on {each.instance_id}" for each in holders),
        "lease": "\n".join(output.time(each.lease_expires_at, now) for each in holders),
    }
