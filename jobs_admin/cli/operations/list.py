"""`trellis-jobs operations list`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

import typer

from jobs_admin.api.views.operations import OperationView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.render.columns import Columns, Row, fit_table
from jobs_admin.cli.render.output import Output, console, one_line, print_json
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
    run(_list(options, limit, output))


async def _list(options: AdminConnectionOptions, limit: int, output: Output) -> None:
    async with options.admin() as admin:
        page = await admin.list_operations(limit=limit)
    if output.json:
        print_json(page)
        return
    screen, now = console(), utc_now()
    if page.entries:
        rows = [_row(operation, output, now) for operation in page.entries]
        screen.print(fit_table(COLUMNS, rows, screen.width))
    screen.print(f"{len(page.entries):,} of {page.count:,} operations", style="dim")


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
