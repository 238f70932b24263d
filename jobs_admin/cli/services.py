"""`trellis-jobs services`: the job types of each service, with their workers and backlog."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from rich.table import Table

from jobs_admin.api.views.services import ServiceView, TypeView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.render.columns import Columns, Row, fit_table
from jobs_admin.cli.render.counts import count
from jobs_admin.cli.render.output import Output, console, print_json
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.run import run
from trellis_jobs.environment import utc_now

_NUMBERS: Final = ("workers", "pending", "retry", "active")
_COLUMNS: Final = Columns(
    names=("service", "type", *_NUMBERS, "oldest pending"),
    truncated="type",
    dropped_first=("oldest pending", "retry"),
    right=_NUMBERS,
)


def services(output: Output, options: AdminConnectionOptions) -> None:
    """List services and their job types: live workers, backlog, and types without a worker."""
    run(_services(options, output))


async def _services(options: AdminConnectionOptions, output: Output) -> None:
    async with options.admin() as admin:
        found = [service async for service in admin.services()]
    if output.json:
        print_json({"services": found})
        return
    if not found:
        console().print("no services: there are no jobs and no workers", style="dim")
        return
    console().print(service_table(found, output, utc_now()))
    unattended = sum(of.unattended for service in found for of in service.types)
    if unattended:
        types = "1 job type has" if unattended == 1 else f"{count(unattended)} job types have"
        console().print(f"{types} waiting jobs and no live worker", style="red")


def service_table(services: Iterable[ServiceView], output: Output, now: datetime) -> Table:
    rows = [_row(service, of, output, now) for service in services for of in service.types]
    return fit_table(_COLUMNS, rows, console().width)


def _row(service: ServiceView, of: TypeView, output: Output, now: datetime) -> Row:
    cells = {
        "service": service.name,
        "type": of.type,
        "workers": "none" if of.unattended else count(of.live_workers),
        "pending": count(of.pending),
        "retry": count(of.retry),
        "active": count(of.active),
        "oldest pending": output.time(of.oldest_pending_at, now),
    }
    style = "red" if of.unattended else ""
    return {name: Text(value, style) for name, value in cells.items()}
