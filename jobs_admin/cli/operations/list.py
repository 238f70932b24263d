"""`trellis-jobs operations list`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

import typer

from jobs_admin.api.views.operations import OperationView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.render.columns import Columns, Row, fitting
from jobs_admin.cli.render.output import Output, console, one_line, print_json
from jobs_admin.cli.run import run
from trellis_jobs.environment import utc_now

COLUMNS: Final = Columns(
    names=("id", "what", "state", "done", "refused", "of", "started", "by", "reason"),
    elastic="reason",
    gives_way=("refused", "started", "by", "reason"),
    cut={"by": 16},
    right=("done", "refused", "of"),
    least=10,
)


def list_operations(
    output: Output,
    reach: AdminConnectionOptions,
    limit: Annotated[int, typer.Option(help="Maximum number of operations.", min=1, max=500)] = 50,
) -> None:
    """Operations, newest first. Those that are over can be seen for a week."""
    run(_list(reach, limit, output))


async def _list(reach: AdminConnectionOptions, limit: int, output: Output) -> None:
    async with reach.admin() as admin:
        page = await admin.list_operations(limit=limit)
    if output.json:
        print_json(page)
        return
    out, now = console(), utc_now()
    if page.entries:
        rows = [_row(operation, output, now) for operation in page.entries]
        out.print(fitting(COLUMNS, rows, out.width))
    out.print(f"{len(page.entries):,} of {page.count:,} operations", style="dim")


def _row(operation: OperationView, output: Output, now: datetime) -> Row:
    return {
        "id": operation.id,
        "what": operation.verb.value,
        "state": operation.state.value,
        "done": f"{operation.done:,}",
        "refused": f"{sum(operation.refused.values()):,}",
        "of": f"{operation.total:,}",
        "started": output.time(operation.created_at, now),
        "by": operation.by,
        "reason": one_line(operation.reason),
    }
