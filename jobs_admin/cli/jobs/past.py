"""`trellis-jobs jobs list --at`: jobs as they were at a past moment."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Final

import typer

from jobs_admin.api.client import AdminClient
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.views.jobs import JobView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.render.counts import how_many
from jobs_admin.cli.render.job_table import job_table
from jobs_admin.cli.render.output import Output, console, print_json, print_json_line
from jobs_admin.cli.render.times import local_stamp, stamp

_TAKEN: Final = {"service", "type", "state"}


def check_past_filter(query: JobFilter) -> None:
    """The other filters are about jobs as they are now."""
    others = query.model_dump(exclude_none=True).keys() - _TAKEN
    if others:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(others))
        raise typer.BadParameter(
            f"it can be combined with --service, --type and --state, not with {named}",
            param_hint="--at",
        )


async def list_jobs_at(
    options: AdminConnectionOptions,
    at: datetime,
    query: JobFilter,
    limit: int | None,
    output: Output,
) -> None:
    """`limit` is None for all jobs, which JSON has one a line."""
    async with options.admin() as admin:
        if output.json and limit is None:
            async for job in _jobs(admin, at, query):
                print_json_line(job)
            return
        found: list[JobView] = []
        has_more = False
        async for job in _jobs(admin, at, query):
            if len(found) == limit:
                has_more = True
                break
            found.append(job)
    if output.json:
        print_json({"at": stamp(at), "entries": found, "hasMore": has_more})
        return
    screen = console()
    screen.print(job_table(found, output, at))
    moment = stamp(at) if output.absolute else local_stamp(at)
    more = ", and more" if has_more else ""
    screen.print(f"{how_many(len(found))}{more}, as of {moment}", style="dim")


def _jobs(admin: AdminClient, at: datetime, query: JobFilter) -> AsyncIterator[JobView]:
    return admin.history.jobs_at(at, state=query.state, service=query.service, type=query.type)
