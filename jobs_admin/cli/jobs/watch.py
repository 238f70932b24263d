"""`trellis-jobs jobs watch`: follow one job in the log until it ends (design D22)."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Annotated

import orjson
import typer
from rich.console import Group, RenderableType
from rich.live import Live

from jobs_admin.api.views.jobs import JobView
from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.exit_codes import Exit
from jobs_admin.cli.job_names import JobArgument, parse_job
from jobs_admin.cli.job_reader.log_entries import follow_until_ended, job_timeout
from jobs_admin.cli.jobs.timeline import event_text
from jobs_admin.cli.render.output import Output, console, one_line, print_json_line, print_line
from jobs_admin.cli.render.progress import progress_text
from jobs_admin.cli.render.states import STYLES, state_until
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.run import run
from jobs_admin.cli.time_options import seconds
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job import Job
from trellis_jobs.model.redaction import redacted
from trellis_jobs.model.states import JobState
from trellis_jobs.model.timeline import TimelineEntry
from trellis_jobs.wire import jobs as wire

WaitTimeout = Annotated[
    str | None, typer.Option(help="Longest time to wait: 30s, 10m.", metavar="DURATION")
]


def watch(
    job: JobArgument,
    output: Output,
    options: ConnectionOptions,
    timeout: WaitTimeout = None,
) -> None:
    """Follow one job until it ends. Exits with 0 if it completed, with 1 if it ended otherwise.

    Exits with 3 if the job does not exist, and with 4 if it did not end in time or no server
    answers. The command reads the log and needs no admin runtime. With --json, it prints the job
    after each of its events.
    """
    run(watch_until_ended(options, parse_job(job), output, seconds("--timeout", timeout)))


async def watch_until_ended(
    options: ConnectionOptions, job: str | JobAddress, output: Output, timeout: float | None
) -> Exit:
    view = _View(output)
    async with job_timeout(timeout, job), options.connection(reconnect=True) as connection:
        with view.shown():
            end = await follow_until_ended(connection, job, view.show)
    view.end(end)
    return Exit.OK if end.state is JobState.COMPLETED else Exit.REFUSED


class _View:
    """A live view on a terminal; one line per event in a pipe."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._console = console()
        self._is_live = self._console.is_terminal and not output.json
        self._job: Job | None = None

    def shown(self) -> AbstractContextManager[object]:
        if not self._is_live:
            return nullcontext()
        return Live(console=self._console, get_renderable=self._frame)

    def show(self, happened: TimelineEntry) -> None:
        self._job = happened.job
        if self._is_live:
            return
        if not self._output.json:
            print_line(event_text(happened, self._output))
        elif happened.ignored is None and happened.job is not None:
            print_json_line(JobView.model_validate(wire.to_json(happened.job)))

    def end(self, job: Job) -> None:
        """The live view shows the result already."""
        if not self._is_live and not self._output.json and job.result is not None:
            print_line(Text(_result(job)))

    def _frame(self) -> RenderableType:
        if self._job is None:
            return Text("reading the log …", "dim")
        return job_frame(self._job, self._output, datetime.now(UTC))


def job_frame(job: Job, output: Output, now: datetime) -> RenderableType:
    """The state with its duration, the progress, and the result or the error."""
    since = format_duration(
        max(timedelta(), (job.updated_at if job.is_over else now) - job.run.began_at)
    )
    queue = f"  {job.address.service}/{job.address.job_type}  "
    state = state_until(job.state, job.status.next_attempt_at, output, now)
    tries = f"  try {job.tries}/{job.max_tries}  {since}"
    lines: list[RenderableType] = [Text.assemble((job.id, "bold"), queue, state, tries)]
    if job.progress is not None:
        lines.append(progress_text(job.progress))
    if job.result is not None:
        lines.append(one_line(_result(job)))
    elif job.why is not None:
        lines.append(one_line(job.why, STYLES[job.state]))
    return Group(*lines)


def _result(job: Job) -> str:
    return orjson.dumps(redacted(job.result, job.run.result_secrets)).decode()
