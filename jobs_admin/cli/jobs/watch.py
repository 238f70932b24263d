"""`trellis-jobs jobs watch`: one job until it is over, straight from the log (design D22)."""

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
from jobs_admin.cli.durations import seconds
from jobs_admin.cli.exit_codes import Exit
from jobs_admin.cli.job_names import JobArgument, named
from jobs_admin.cli.jobs.timeline import event_text
from jobs_admin.cli.reading.log_reading import no_longer_than, until_over
from jobs_admin.cli.render.output import Output, console, one_line, print_json_line, print_line
from jobs_admin.cli.render.progress import progress_text
from jobs_admin.cli.render.states import STYLES
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.run import run
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job import Job
from trellis_jobs.model.redaction import redacted
from trellis_jobs.model.states import JobState
from trellis_jobs.model.timeline import TimelineEntry
from trellis_jobs.wire import jobs as wire


def watch(
    job: JobArgument,
    output: Output,
    reach: ConnectionOptions,
    timeout: Annotated[
        str | None, typer.Option(help="Wait no longer than that: 30s, 10m.", metavar="DURATION")
    ] = None,
) -> None:
    """Follow one job to its end, which is the exit code: 0 completed, 1 any other end.

    It is read from the log itself, and needs no admin runtime. 3: there is no such job; 4: it was
    not over in time, or no server answers. With --json, the job after each of its events.
    """
    run(watch_to_the_end(reach, named(job), output, seconds("--timeout", timeout)))


async def watch_to_the_end(
    reach: ConnectionOptions, job: str | JobAddress, output: Output, timeout: float | None
) -> Exit:
    view = _View(output)
    async with no_longer_than(timeout, job), reach.connection(patient=True) as connection:
        with view.shown():
            end = await until_over(connection, job, view.show)
    view.end(end)
    return Exit.OK if end.state is JobState.COMPLETED else Exit.REFUSED


class _View:
    """A picture that changes on a terminal; in a pipe a line for each event."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._console = console()
        self._is_picture = self._console.is_terminal and not output.json
        self._job: Job | None = None

    def shown(self) -> AbstractContextManager[object]:
        if not self._is_picture:
            return nullcontext()
        return Live(console=self._console, get_renderable=self._picture)

    def show(self, told: TimelineEntry) -> None:
        self._job = told.job
        if self._is_picture:
            return
        if not self._output.json:
            print_line(event_text(told, self._output))
        elif told.ignored is None and told.job is not None:
            print_json_line(JobView.model_validate(wire.to_json(told.job)))

    def end(self, job: Job) -> None:
        """A picture has the result already."""
        if not self._is_picture and not self._output.json and job.result is not None:
            print_line(Text(_result(job)))

    def _picture(self) -> RenderableType:
        if self._job is None:
            return Text("reading the log …", "dim")
        return picture(self._job, datetime.now(UTC))


def picture(job: Job, now: datetime) -> RenderableType:
    """The state and for how long, how far it is, and how it ended."""
    since = format_duration(
        max(timedelta(), (job.updated_at if job.is_over else now) - job.run.began_at)
    )
    queue = f"  {job.address.service}/{job.address.job_type}  "
    state = (job.state.value, STYLES[job.state])
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
