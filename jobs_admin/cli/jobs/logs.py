"""`trellis-jobs jobs logs`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import typer

from jobs_admin.api.views.jobs import LogLineView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.exit_codes import Exit
from jobs_admin.cli.job_names import JobArgument, parse_job
from jobs_admin.cli.job_reader.log_entries import follow_until_ended
from jobs_admin.cli.job_reader.reader import open_reader
from jobs_admin.cli.render.output import Output, console, print_json_line, print_stderr
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.run import run
from jobs_admin.explain.job_view import log_lines
from jobs_admin.explain.log_records import recorded
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.notes import LogLevel
from trellis_jobs.model.timeline import TimelineEntry, replay

_STYLES: Final = {LogLevel.WARN: "yellow", LogLevel.ERROR: "red"}
_LEVEL_WIDTH: Final = 5


def show_logs(
    job: JobArgument,
    output: Output,
    options: AdminConnectionOptions,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Keep printing new lines until the job ends."),
    ] = False,
) -> None:
    """Show what the handler of a job logged, in all runs. With --json, one object per line."""
    parsed = parse_job(job)
    if follow:
        run(_follow(options, parsed, _Printer(output)), when_interrupted=Exit.OK)
    else:
        run(_show(options, parsed, _Printer(output)))


class _Printer:
    """Prints a separator between the runs of the job."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._run = 0

    def print(self, line: LogLineView) -> None:
        if self._output.json:
            print_json_line(line)
            return
        for text in self._texts(line):
            console().print(text)

    def print_all(self, happened: TimelineEntry) -> None:
        for line in log_lines(happened):
            self.print(line)

    def _texts(self, line: LogLineView) -> Iterator[Text]:
        if self._run not in (0, line.run_seq):
            yield Text("the job was retried", "dim")
        self._run = line.run_seq
        level = LogLevel(line.level)
        yield Text.assemble(
            (f"{self._output.clock(line.timestamp)}  ", "dim"),
            (f"{level.value:<{_LEVEL_WIDTH}}  ", _STYLES.get(level, "dim")),
            line.message,
        )


async def _show(options: AdminConnectionOptions, job: str | JobAddress, printer: _Printer) -> None:
    async with open_reader(options) as reader:
        history = replay(recorded(await reader.entries(job)))
    lines = [line for each in history for line in log_lines(each)]
    for line in lines:
        printer.print(line)
    if not lines:
        print_stderr("The job has no log lines.")


async def _follow(
    options: AdminConnectionOptions, job: str | JobAddress, printer: _Printer
) -> None:
    async with options.connection(reconnect=True) as connection:
        await follow_until_ended(connection, job, printer.print_all)
