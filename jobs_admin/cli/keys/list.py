"""`trellis-jobs keys list`."""

from __future__ import annotations

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
from jobs_admin.cli.render.output import JsonOutput, console, one_line
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
    run(
        show_page(
            lambda admin: admin.list_keys(service=service, type=type, limit=limit),
            options,
            output,
            _table,
            lambda page: "1 key" if page.count == 1 else f"{count(page.count)} keys",
        )
    )


def _table(page: Page[BusyKeyView]) -> Table:
    return fit_table(_COLUMNS, [_row(key) for key in page.entries], console().width)


def _row(key: BusyKeyView) -> Row:
    return {
        "queue": f"{key.service}/{key.type}",
        "key": one_line(key.key),
        "running": count(key.active),
        "waiting": count(key.waiting),
    }
