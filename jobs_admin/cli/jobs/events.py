"""`trellis-jobs jobs events`."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from jobs_admin.api.views.jobs import LogEntry
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.job_names import OptionalJob
from jobs_admin.cli.job_reader.bundle_reader import (
    BundleOption,
    load_bundle,
    named_jobs,
    open_source,
)
from jobs_admin.cli.job_reader.reader import JobSource
from jobs_admin.cli.jobs.timeline import render_timeline
from jobs_admin.cli.render.output import (
    Output,
    print_json,
    print_json_line,
    print_line,
    print_stderr,
)
from jobs_admin.cli.render.times import stamp
from jobs_admin.cli.run import run
from jobs_admin.explain.log_records import recorded
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.timeline import TimelineSpan, timeline


def show_events(
    output: Output,
    options: AdminConnectionOptions,
    job: OptionalJob = None,
    bundle: BundleOption = None,
    raw: Annotated[
        bool,
        typer.Option("--raw", help="Print only the events, one per line, as they are stored."),
    ] = False,
) -> None:
    """Show the timeline of a job: every event, and what the job did or waited for in between.

    Each time is when the server stored the event. Ignored events are shown with the reason.
    """
    if raw and output.json:
        raise typer.BadParameter("it cannot be combined with --json", param_hint="--raw")
    exported = None if bundle is None else load_bundle(bundle)
    [named] = named_jobs([] if job is None else [job], exported)
    now = datetime.now(UTC) if exported is None else exported.exported_at
    run(_show(open_source(options, exported), named, output, now, raw=raw))


async def _show(
    source: AbstractAsyncContextManager[JobSource],
    job: str | JobAddress,
    output: Output,
    now: datetime,
    *,
    raw: bool,
) -> None:
    async with source as reader:
        entries = await reader.entries(job)
    if raw:
        _print_raw(entries)
    elif output.json:
        print_json(_document(entries, now))
    else:
        for line in render_timeline(timeline(recorded(entries), now), output, now):
            print_line(line)


def _print_raw(entries: list[LogEntry]) -> None:
    for entry in entries:
        if entry.event is not None:
            print_json_line(entry.event)
        else:
            reason = entry.undecodable or "too large to send"
            print_stderr(f"message {entry.seq} is omitted: {reason}")


def _document(entries: list[LogEntry], now: datetime) -> dict[str, Any]:
    between = [each for each in timeline(recorded(entries), now) if isinstance(each, TimelineSpan)]
    return {"entries": entries, "between": [_between(each, now) for each in between]}


def _between(each: TimelineSpan, now: datetime) -> dict[str, Any]:
    fields = {
        "phase": each.phase.value,
        "begin": stamp(each.begin),
        "end": each.end and stamp(each.end),
        "seconds": each.length(now).total_seconds(),
        "until": each.until and stamp(each.until),
        "interruptedBy": each.interrupted_by,
    }
    return {name: value for name, value in fields.items() if value is not None}
