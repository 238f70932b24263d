"""`trellis-jobs projection ignored`."""

from __future__ import annotations

from typing import Annotated, Final

import typer
from rich.table import Table

from jobs_admin.api.views.base import Page
from jobs_admin.api.views.services import IgnoredView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.filters import Service, Type
from jobs_admin.cli.page import show_page
from jobs_admin.cli.render.columns import Columns, Row, fit_table
from jobs_admin.cli.render.counts import count, size
from jobs_admin.cli.render.output import JsonOutput, console, one_line
from jobs_admin.cli.run import run
from trellis_jobs.model import subjects
from trellis_jobs.model.subjects import LifecycleSubject

_COLUMNS: Final = Columns(
    names=("seq", "queue", "job", "event", "reason"),
    flexible="reason",
    truncated="queue",
    dropped_first=("event", "seq"),
    right=("seq",),
)


def list_ignored(
    output: JsonOutput,
    options: AdminConnectionOptions,
    service: Service = None,
    type: Type = None,
    limit: Annotated[int, typer.Option(help="Maximum number of messages.", min=1, max=500)] = 50,
) -> None:
    """List the messages of the log that the projection ignored, newest first, and why.

    These are events that were not legal in the state of their job, and messages that are not
    events. Needs an admin runtime.
    """
    run(
        show_page(
            lambda admin: admin.list_ignored(service=service, type=type, limit=limit),
            options,
            output,
            _table,
            lambda page: f"{count(page.count)} ignored messages",
        )
    )


def _table(page: Page[IgnoredView]) -> Table:
    return fit_table(_COLUMNS, [_row(each) for each in page.entries], console().width)


def _row(message: IgnoredView) -> Row:
    queue, job, event = _about(message)
    bytes_shown = "" if message.size is None else f" ({size(message.size)})"
    return {
        "seq": str(message.seq),
        "queue": queue,
        "job": job,
        "event": event,
        "reason": one_line(f"{message.reason}{bytes_shown}"),
    }


def _about(message: IgnoredView) -> tuple[str, str, str]:
    """The queue, job and event; for a message that is not an event, what its subject shows."""
    if message.subject is None:
        return f"{message.service}/{message.type}", message.id or "", message.kind or ""
    match subjects.parse(message.subject):
        case LifecycleSubject(job, kind):
            return f"{job.service}/{job.job_type}", job.job_id, kind.value
        case _:
            return message.subject, "", ""
