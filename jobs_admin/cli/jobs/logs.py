"""`trellis-jobs jobs logs`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import typer

from jobs_admin.api.views.jobs import LogLineView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.exit_codes import Exit
from jobs_admin.cli.job_names import JobArgument, named
from jobs_admin.cli.reading.folded_job import log_lines
from jobs_admin.cli.reading.job_reader import reading
from jobs_admin.cli.reading.log_reading import recorded, until_over
from jobs_admin.cli.render.output import Output, console, print_json_line, say
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.run import run
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.notes import LogLevel
from trellis_jobs.model.timeline import TimelineEntry, replay

_STYLES: Final = {LogLevel.WARN: "yellow", LogLevel.ERROR: "red"}
_LEVEL_WIDTH: Final = 5


def show_logs(
    job: JobArgument,
    output: Output,
    reach: AdminConnectionOptions,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Go on until the job is over; read from the log."),
    ] = False,
) -> None:
    """What a job's handler logged, in all of its runs; with --json, one line each."""
    wanted = named(job)
    if follow:
        run(_follow(reach, wanted, _Printer(output)), when_interrupted=Exit.OK)
    else:
        run(_show(reach, wanted, _Printer(output)))


class _Printer:
    """Says when another run of the job begins to speak."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._run = 0

    def print(self, line: LogLineView) -> None:
        if self._output.json:
            print_json_line(line)
            return
        for text in self._texts(line):
            console().print(text)

    def print_all(self, told: TimelineEntry) -> None:
        for line in log_lines(told):
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


async def _show(reach: AdminConnectionOptions, job: str | JobAddress, printer: _Printer) -> None:
    async with reading(reach) as reader:
        told = replay(recorded(await reader.entries(job)))
    lines = [line for each in told for line in log_lines(each)]
    for line in lines:
        printer.print(line)
    if not lines:
        say("The job has logged nothing.")


async def _follow(reach: AdminConnectionOptions, job: str | JobAddress, printer: _Printer) -> None:
    async with reach.connection(patient=True) as connection:
        await until_over(connection, job, printer.print_all)
