"""`trellis-jobs projection ignored`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import typer
from rich.table import Table

from jobs_admin.api.views.services import IgnoredView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.filters import Service, Type
from jobs_admin.cli.render.columns import Columns, Row, fitting
from jobs_admin.cli.render.counts import count, size
from jobs_admin.cli.render.output import JsonOutput, console, one_line, print_json
from jobs_admin.cli.run import run
from trellis_jobs.model import subjects
from trellis_jobs.model.subjects import LifecycleSubject

_COLUMNS: Final = Columns(
    names=("seq", "queue", "job", "event", "why"),
    elastic="why",
    shortened="queue",
    gives_way=("event", "seq"),
    right=("seq",),
)


def list_ignored(
    output: JsonOutput,
    reach: AdminConnectionOptions,
    service: Service = None,
    type: Type = None,
    limit: Annotated[int, typer.Option(help="So many at most.", min=1, max=500)] = 50,
) -> None:
    """What is in the log and did not count, newest first, and why.

    Events that were not legal where their job stood, and messages that are no events. An admin
    runtime must run.
    """
    run(_list(reach, service, type, limit, output))


async def _list(
    reach: AdminConnectionOptions,
    service: str | None,
    of_type: str | None,
    limit: int,
    output: JsonOutput,
) -> None:
    async with reach.admin() as admin:
        page = await admin.list_ignored(service=service, type=of_type, limit=limit)
    if output.json:
        print_json(page)
        return
    if page.entries:
        console().print(ignored_table(page.entries, console().width))
    console().print(
        f"{count(len(page.entries))} of {count(page.count)} messages did not count", style="dim"
    )


def ignored_table(ignored: Iterable[IgnoredView], room: int) -> Table:
    return fitting(_COLUMNS, [_row(each) for each in ignored], room)


def _row(message: IgnoredView) -> Row:
    queue, job, event = _about(message)
    large = "" if message.size is None else f" ({size(message.size)})"
    return {
        "seq": str(message.seq),
        "queue": queue,
        "job": job,
        "event": event,
        "why": one_line(f"{message.reason}{large}"),
    }


def _about(message: IgnoredView) -> tuple[str, str, str]:
    """Of what is no event, whatever its subject says."""
    if message.subject is None:
        return f"{message.service}/{message.type}", message.id or "", message.kind or ""
    match subjects.parse(message.subject):
        case LifecycleSubject(job, kind):
            return f"{job.service}/{job.job_type}", job.job_id, kind.value
        case _:
            return message.subject, "", ""
