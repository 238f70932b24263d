"""`trellis-jobs operations list`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

import typer
from rich.table import Table

from jobs_admin.api.views.base import Page
from jobs_admin.api.views.operations import OperationView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.page import show_page
from jobs_admin.cli.render.columns import Columns, Row, fit_table
from jobs_admin.cli.render.counts import count
from jobs_admin.cli.render.output import Output, console, one_line
from jobs_admin.cli.run import run
from trellis_jobs.environment import utc_now

COLUMNS: Final = Columns(
    names=("id", "action", "state", "done", "refused", "total", "started", "by", "reason"),
    flexible="reason",
    dropped_first=("refused", "started", "by", "reason"),
    max_widths={"by": 16},
    right=("done", "refused", "total"),
    min_flexible=10,
)


def list_operations(
    output: Output,
    options: AdminConnectionOptions,
    limit: Annotated[int, typer.Option(help="Maximum number of operations.", min=1, max=500)] = 50,
) -> None:
    """List operations, newest first. Ended operations are kept for a week."""
    run(
        show_page(
            lambda admin: admin.list_operations(limit=limit),
            options,
            output,
            lambda page: _table(page, output),
            lambda page: f"{count(page.count)} operations",
        )
    )


def _table(page: Page[OperationView], output: Output) -> Table:
    now = utc_now()
    rows = [_row(operation, output, now) for operation in page.entries]
    return fit_table(COLUMNS, rows, console().width)


def _row(operation: OperationView, output: Output, now: datetime) -> Row:
    return {
        "id": operation.id,
        "action": operation.verb.value,
        "state": operation.state.value,
        "done": f"{operation.done:,}",
        "refused": f"{sum(operation.refused.values()):,}",
        "total": f"{operation.total:,}",
        "started": output.time(operation.created_at, now),
        "by": operation.by,
        "reason": one_line(operation.reason),
    }
