"""`trellis-jobs operations get`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.table import Table

from jobs_admin.api.views.operations import OperationFilter, OperationView
from jobs_admin.cli.bulk.operation import summary
from jobs_admin.cli.bulk.verbs import BY_OPERATION
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.render.output import Output, console, print_json
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.run import run
from trellis_jobs.environment import utc_now

OperationId = Annotated[str, typer.Argument(metavar="ID", help="The id of the operation.")]


def get(operation: OperationId, output: Output, reach: AdminConnectionOptions) -> None:
    """One operation: which jobs, how far it is, what was refused and why."""
    run(_get(reach, operation, output))


async def _get(reach: AdminConnectionOptions, operation_id: str, output: Output) -> None:
    async with reach.admin() as admin:
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
    yield from summary(operation, BY_OPERATION[operation.verb])
    if operation.error is not None:
        yield Text(operation.error, "red")


def _facts(operation: OperationView, output: Output, now: datetime) -> Iterator[tuple[str, str]]:
    yield "operation", operation.id
    yield "what", operation.verb.value
    yield "jobs", _filter(operation.filter) or "all that it is possible for"
    yield "state", operation.state.value
    yield "by", operation.by
    if operation.reason is not None:
        yield "reason", operation.reason
    if operation.rate is not None:
        yield "rate", f"{operation.rate:g} jobs/s"
    yield "started", output.time(operation.created_at, now)
    if operation.ended_at is not None:
        yield "ended", output.time(operation.ended_at, now)
    elif operation.owner is None:
        yield "runs on", "no admin runtime: one takes it up within seconds"


def _filter(wanted: OperationFilter) -> str:
    told = wanted.model_dump(mode="json", exclude_none=True)
    return " ".join(f"{name}={_value(value)}" for name, value in told.items())


def _value(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
