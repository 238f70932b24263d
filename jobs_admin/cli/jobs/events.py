"""`trellis-jobs jobs events`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from jobs_admin.api.views.jobs import LogEntry
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.job_names import JobArgument, named
from jobs_admin.cli.jobs.timeline import drawn
from jobs_admin.cli.reading.job_reader import reading
from jobs_admin.cli.reading.log_reading import recorded
from jobs_admin.cli.render.output import Output, print_json, print_json_line, print_line, say
from jobs_admin.cli.render.times import stamp
from jobs_admin.cli.run import run
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.timeline import TimelineSpan, timeline


def show_events(
    job: JobArgument,
    output: Output,
    reach: AdminConnectionOptions,
    raw: Annotated[
        bool, typer.Option("--raw", help="Only the events, as they were written, one a line.")
    ] = False,
) -> None:
    """A job's story: every event, and what it did or waited for in between.

    Times are the server's: when it stored each event. What did not count is shown with the reason.
    """
    if raw and output.json:
        raise typer.BadParameter("it is JSON already: choose one", param_hint="--raw")
    run(_show(reach, named(job), output, raw=raw))


async def _show(
    reach: AdminConnectionOptions, job: str | JobAddress, output: Output, *, raw: bool
) -> None:
    async with reading(reach) as reader:
        entries = await reader.entries(job)
    now = datetime.now(UTC)
    if raw:
        _print_raw(entries)
    elif output.json:
        print_json(_document(entries, now))
    else:
        for line in drawn(timeline(recorded(entries), now), output, now):
            print_line(line)


def _print_raw(entries: list[LogEntry]) -> None:
    for entry in entries:
        if entry.event is not None:
            print_json_line(entry.event)
        else:
            say(f"message {entry.seq} is left out: {entry.undecodable or 'too large to be sent'}")


def _document(entries: list[LogEntry], now: datetime) -> dict[str, Any]:
    between = [each for each in timeline(recorded(entries), now) if isinstance(each, TimelineSpan)]
    return {"entries": entries, "between": [_between(each, now) for each in between]}


def _between(each: TimelineSpan, now: datetime) -> dict[str, Any]:
    told = {
        "phase": each.phase.value,
        "begin": stamp(each.begin),
        "end": each.end and stamp(each.end),
        "seconds": each.length(now).total_seconds(),
        "until": each.until and stamp(each.until),
        "interruptedBy": each.interrupted_by,
    }
    return {name: value for name, value in told.items() if value is not None}
