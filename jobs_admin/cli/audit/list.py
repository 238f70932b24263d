"""`trellis-jobs audit list`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final

import typer
from rich.table import Table

from jobs_admin.api.views.audit import AuditEntry, AuditPage, AuditTarget, AuditVerb
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.filters import PANEL, Service, Type, moment
from jobs_admin.cli.page import show_page
from jobs_admin.cli.render.columns import Columns, Row, fit_table
from jobs_admin.cli.render.counts import count
from jobs_admin.cli.render.output import Output, console, one_line
from jobs_admin.cli.run import run
from trellis_jobs.environment import utc_now

_COLUMNS: Final = Columns(
    names=("when", "by", "did", "to", "reason"),
    flexible="reason",
    truncated="to",
    dropped_first=("reason",),
    max_widths={"by": 16},
    min_flexible=10,
)


def list_audit(
    output: Output,
    options: AdminConnectionOptions,
    by: Annotated[
        str | None, typer.Option(help="Only what this operator did.", rich_help_panel=PANEL)
    ] = None,
    verb: Annotated[
        str | None,
        typer.Option(
            help=f"Only this: {', '.join(AuditVerb)}.",
            autocompletion=lambda: list(AuditVerb),
            rich_help_panel=PANEL,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help=f"Only what was done to one of these: {', '.join(AuditTarget)}.",
            autocompletion=lambda: list(AuditTarget),
            rich_help_panel=PANEL,
        ),
    ] = None,
    service: Service = None,
    type: Type = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Only since this time: 10m, 2h, 3d ago, or RFC 3339.",
            metavar="TIME",
            rich_help_panel=PANEL,
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(help="Only before this time.", metavar="TIME", rich_help_panel=PANEL),
    ] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of entries.", min=1, max=500)] = 50,
) -> None:
    """List what operators did, newest first.

    Changes of single jobs are listed as long as the jobs are in the log, everything else for 90
    days. An operation is one entry, however many jobs it changes.
    """
    now = datetime.now(UTC)
    after, before = moment("--since", since, now), moment("--until", until, now)
    run(
        show_page(
            lambda admin: admin.audit.list(
                by=by,
                verb=verb,
                target=target,
                service=service,
                type=type,
                since=after,
                until=before,
                limit=limit,
            ),
            options,
            output,
            lambda page: _table(page, output),
            _total,
        )
    )


def _total(page: AuditPage) -> str:
    entries = "1 entry" if page.count == 1 else f"{count(page.count)} entries"
    return f"{entries}; only about jobs: {page.problem}" if page.problem else entries


def _table(page: AuditPage, output: Output) -> Table:
    now = utc_now()
    rows = [_row(entry, output, now) for entry in page.entries]
    return fit_table(_COLUMNS, rows, console().width)


def _row(entry: AuditEntry, output: Output, now: datetime) -> Row:
    return {
        "when": output.time(entry.at, now),
        "by": one_line(entry.by or "(unknown)"),
        "did": entry.verb,
        "to": one_line(_target(entry)),
        "reason": one_line(entry.reason),
    }


def _target(entry: AuditEntry) -> str:
    queue = "/".join(filter(None, (entry.service, entry.type)))
    if entry.target == AuditTarget.OPERATION:
        return f"operation {entry.id} on {count(entry.count or 0)} jobs"
    if entry.target == AuditTarget.WORKER and entry.id is None:
        return f"{count(entry.count or 0)} workers of {entry.service}"
    return " ".join(filter(None, (entry.target, "/".join(filter(None, (queue, entry.id))))))
