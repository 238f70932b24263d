"""`trellis-jobs operations get`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.table import Table

from jobs_admin.api.views.operations import OperationFilter, OperationView
from jobs_admin.cli.bulk.operation import operation_summary
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.render.output import Output, console, print_json
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.run import run
from trellis_jobs.environment import utc_now

OperationId = Annotated[str, typer.Argument(metavar="ID", help="The id of the operation.")]


def get(operation: OperationId, output: Output, options: AdminConnectionOptions) -> None:
    """Show one operation: its filter, its progress, and which jobs were refused and why."""
    run(_get(options, operation, output))


async def _get(options: AdminConnectionOptions, operation_id: str, output: Output) -> None:
    async with options.admin() as admin:
        operation = await admin.get_operation(operation_id)
    show(operation, output)


def show(operation: OperationView, output: Output) -> None:
    if output.json:
        print_json({"operation": operation})
        return
    for part in _parts(operation, output, utc_now()):
        console().print(part)


def _parts(operation: OperationView, output: Output, now: datetime) -> Iterator[RenderableType]:
    facts = Table.grid(padding=(0, 2, 0, 0))
    for name, value in _facts(operation, output, now):
        facts.add_row(name, Text(value))
    yield facts
    yield Text()
    yield from operation_summary(operation)
    if operation.error is not None:
        yield Text(operation.error, "red")


def _facts(operation: OperationView, output: Output, now: datetime) -> Iterator[tuple[str, str]]:
    yield "operation", operation.id
    yield "action", operation.verb.value
    yield "jobs", _filter(operation.filter) or "all jobs in a suitable state"
    yield "state", operation.state.value
    yield "by", operation.by
    if operation.reason is not None:
        yield "reason", operation.reason
    if operation.run_at is not None:
        yield "to run at", output.time(operation.run_at, now)
    if operation.rate is not None:
        yield "rate", f"{operation.rate:g} jobs/s"
    yield "started", output.time(operation.created_at, now)
    if operation.ended_at is not None:
        yield "ended", output.time(operation.ended_at, now)
    elif operation.owner is None:
        yield "runs on", "no admin runtime at the moment; one takes it over within seconds"


def _filter(filters: OperationFilter) -> str:
    fields = filters.model_dump(mode="json", exclude_none=True)
    return " ".join(f"{name}={_value(value)}" for name, value in fields.items())


def _value(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
