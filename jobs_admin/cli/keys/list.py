"""`trellis-jobs keys list`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import typer
from rich.table import Table

from jobs_admin.api.views.keys import BusyKeyView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.filters import Service, Type
from jobs_admin.cli.render.columns import Columns, Row, fit_table
from jobs_admin.cli.render.counts import count
from jobs_admin.cli.render.output import JsonOutput, console, one_line, print_json
from jobs_admin.cli.run import run

_COLUMNS: Final = Columns(
    names=("queue", "key", "running", "waiting"),
    flexible="key",
    truncated="queue",
    right=("running", "waiting"),
)


def list_keys(
    output: JsonOutput,
    options: AdminConnectionOptions,
    service: Service = None,
    type: Type = None,
    limit: Annotated[int, typer.Option(help="Maximum number of keys.", min=1, max=500)] = 50,
) -> None:
    """List keys that jobs hold or wait for, those with the most jobs first."""
    run(_list(options, service, type, limit, output))


async def _list(
    options: AdminConnectionOptions,
    service: str | None,
    job_type: str | None,
    limit: int,
    output: JsonOutput,
) -> None:
    async with options.admin() as admin:
        page = await admin.list_keys(service=service, type=job_type, limit=limit)
    if output.json:
        print_json(page)
        return
    if page.entries:
        console().print(key_table(page.entries))
    console().print(f"{count(len(page.entries))} of {count(page.count)} keys", style="dim")


def key_table(keys: Iterable[BusyKeyView]) -> Table:
    return fit_table(_COLUMNS, [_row(key) for key in keys], console().width)


def _row(key: BusyKeyView) -> Row:
    return {
        "queue": f"{key.service}/{key.type}",
        "key": one_line(key.key),
        "running": count(key.active),
        "waiting": count(key.waiting),
    }
