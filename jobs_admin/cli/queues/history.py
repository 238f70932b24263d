"""`trellis-jobs queues history`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import typer
from rich.table import Table

from jobs_admin.api.history_inputs import MAX_HISTORY_STEPS
from jobs_admin.api.views.history import DurationsView, HistoryView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.queue_names import QueueArgument, QueueName, parse_queue
from jobs_admin.cli.render.columns import Columns, Row, fit_table
from jobs_admin.cli.render.counts import count
from jobs_admin.cli.render.output import Output, console, print_json
from jobs_admin.cli.run import run
from jobs_admin.cli.time_options import duration, moment_ago
from trellis_jobs.model.durations import format_duration

_MINUTE: Final = timedelta(minutes=1)
_HOUR: Final = timedelta(hours=1)
# In the order in which they happen to a job; the others follow by name.
_KINDS: Final = ("scheduled", "created", "started", "completed", "retry", "failed", "dead")
_WAIT, _RUN = "wait p95", "run p95"


def history(
    queue: QueueArgument,
    output: Output,
    options: AdminConnectionOptions,
    since: Annotated[
        str, typer.Option(help="Begin: 10m, 2h, 3d ago, or RFC 3339.", metavar="TIME")
    ] = "24h",
    until: Annotated[str | None, typer.Option(help="End, instead of now.", metavar="TIME")] = None,
    step: Annotated[
        str | None,
        typer.Option(
            help="1m, or whole hours: 1h, 6h. Default: 1m for up to an hour, otherwise 1h.",
            metavar="DURATION",
        ),
    ] = None,
) -> None:
    """Show how many events a queue had over time, and how long its jobs waited and ran.

    Minutes are kept for a day, hours for thirty days.
    """
    now = datetime.now(UTC)
    begin = moment_ago("--since", since, now)
    end = None if until is None else moment_ago("--until", until, now)
    length = _step(step, (end or now) - begin)
    run(_history(options, parse_queue(queue), (begin, end, length), output))


def _step(text: str | None, period: timedelta) -> timedelta:
    if text is None:
        return _MINUTE if period <= _HOUR else _HOUR
    length = duration("--step", text)
    if length != _MINUTE and length % _HOUR:
        raise typer.BadParameter(
            f"{text!r} is neither 1m nor whole hours, such as 1h or 6h", param_hint="--step"
        )
    if period > MAX_HISTORY_STEPS * length:
        raise typer.BadParameter(
            f"more than {MAX_HISTORY_STEPS} steps: use a longer --step or a later --since",
            param_hint="--step",
        )
    return length


async def _history(
    options: AdminConnectionOptions,
    queue: QueueName,
    period: tuple[datetime, datetime | None, timedelta],
    output: Output,
) -> None:
    since, until, step = period
    async with options.admin() as admin:
        found = await admin.history.events(
            since, until, step=step, service=queue.service, type=queue.job_type
        )
    if output.json:
        print_json(found)
        return
    screen = console()
    if not found.events:
        screen.print(f"{queue} had no events in that time", style="dim")
        return
    screen.print(history_table(found, output, screen.width))
    for name, durations in (("wait", found.wait), ("run", found.run)):
        if durations is not None:
            screen.print(f"{name}: {_summary(durations)}", style="dim")


def history_table(found: HistoryView, output: Output, width: int) -> Table:
    """A row for each step; only the kinds of events that occurred."""
    now, step = datetime.now(UTC), timedelta(minutes=found.step_minutes)
    others = sorted(found.events.keys() - set(_KINDS))
    kinds = [kind for kind in (*_KINDS, *others) if kind in found.events]
    p95s = {
        name: of.steps.p95_ms
        for name, of in ((_WAIT, found.wait), (_RUN, found.run))
        if of is not None and of.steps is not None
    }
    steps = range((found.until - found.since) // step)
    rows: list[Row] = [
        {
            "from": output.moment(found.since + index * step, now),
            **{kind: _count(found.events[kind][index]) for kind in kinds},
            **{name: _milliseconds(p95[index]) for name, p95 in p95s.items()},
        }
        for index in steps
    ]
    names = ["from", *kinds, *p95s]
    columns = Columns(names=names, dropped_first=[*p95s, *others], right=names[1:])
    return fit_table(columns, rows, width)


def _count(number: int) -> str:
    return count(number) if number else ""


def _milliseconds(number: float | None) -> str:
    return "" if number is None else format_duration(timedelta(milliseconds=number))


def _summary(of: DurationsView) -> str:
    percentiles = (("p50", of.p50_ms), ("p95", of.p95_ms), ("p99", of.p99_ms))
    numbers = ", ".join(f"{name} {_milliseconds(value)}" for name, value in percentiles)
    tries = "1 try" if of.attempts == 1 else f"{count(of.attempts)} tries"
    return f"{numbers} ({tries})"
