"""One frame of `top`, cut to the height of the terminal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.table import Table

from jobs_admin.api.views.health import HealthStatus, HealthView
from jobs_admin.cli.render.columns import Columns, fit_table
from jobs_admin.cli.render.counts import count, rate
from jobs_admin.cli.render.states import STYLES
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.top.snapshot import FAILURES, TopSnapshot, TypeSnapshot
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.states import JobState

_STATES: Final = {
    "pending": JobState.PENDING,
    "active": JobState.ACTIVE,
    "retry": JobState.RETRY,
    "dead": JobState.DEAD,
}
# Dropped first on a narrow terminal.
_DROPPED_FIRST: Final = (
    "new/min",
    "waiting",
    "oldest",
    "errors/min",
    "workers",
    "done/min",
    "retry",
)
# Heading, health, totals, a blank line, the header of the table, and the line about hidden rows.
_FRAME_LINES: Final = 6


def frame(snapshot: TopSnapshot, heading: str, screen: Console) -> RenderableType:
    """Cut to the height of a terminal; complete in a pipe."""
    total = len(snapshot.types)
    room = max(1, screen.size.height - _FRAME_LINES) if screen.is_terminal else total
    by_rank = sorted(snapshot.types, key=lambda each: (each.rank, each.name))
    types = sorted(by_rank[:room], key=lambda each: each.name)
    hidden = total - len(types)
    return Group(
        _line(f"{heading}   {snapshot.at.astimezone():%H:%M:%S}", "bold"),
        health_line(snapshot),
        _totals(snapshot),
        Text(),
        _table(types, snapshot, screen.width),
        Text(f"… and {count(hidden)} less urgent job types" if hidden else "", "dim"),
    )


def health_line(snapshot: TopSnapshot) -> Text:
    if snapshot.health is None:
        reason = snapshot.trouble or "the admin runtime does not answer"
        return _line(f"no job counts: {reason}", "red")
    degraded = [c for c in snapshot.health.checks if c.status is not HealthStatus.OK]
    if degraded:
        checks = "; ".join(f"{c.name}: {c.error or c.last_error or 'degraded'}" for c in degraded)
        return _line(f"admin runtime degraded: {checks}", "yellow")
    return _line(f"admin runtime ok{_lag(snapshot.health)}", "green")


def _lag(health: HealthView) -> str:
    projection = health.check("projection")
    if projection is None or projection.lag_seconds is None:
        return ""
    return f", {format_duration(timedelta(seconds=projection.lag_seconds))} behind the log"


def _totals(snapshot: TopSnapshot) -> Text:
    counted = Text(no_wrap=True, overflow="ellipsis")
    for state in JobState:
        total = sum(each.state(state.value) or 0 for each in snapshot.types)
        if total:
            counted.append(f"{count(total)} {state.value}  ", STYLES[state])
    return counted


def _table(types: list[TypeSnapshot], snapshot: TopSnapshot, room: int) -> Table:
    numbers = [*_STATES, *_COLUMNS]
    rows = [
        {"type": Text(each.name, _name_style(each))}
        | {column: _cell(column, each, snapshot) for column in numbers}
        for each in types
    ]
    columns = Columns(names=["type", *numbers], dropped_first=_DROPPED_FIRST, right=numbers, gap=1)
    return fit_table(columns, rows, room)


def _cell(column: str, each: TypeSnapshot, snapshot: TopSnapshot) -> Text:
    state = _STATES.get(column)
    if state is None:
        return _COLUMNS[column](each, snapshot)
    return _count(each.state(state.value), STYLES[state])


def _oldest(each: TypeSnapshot, snapshot: TopSnapshot) -> Text:
    """The age of the oldest waiting job, from the server, or else from the projection."""
    at = each.row.oldest_at if each.row else None
    if at is None and each.stats is not None and each.row is None:
        at = each.stats.oldest_pending_at
    return Text("" if at is None else format_duration(max(snapshot.at - at, timedelta())))


def _waiting(each: TypeSnapshot, snapshot: TopSnapshot) -> Text:
    queue = each.row.queue if each.row else None
    return _count(None if queue is None else queue.consumer.pending, "")


def _errors(each: TypeSnapshot, snapshot: TopSnapshot) -> Text:
    return _rate(each.per_minute(*FAILURES), "red")


def _done(each: TypeSnapshot, snapshot: TopSnapshot) -> Text:
    return _rate(each.per_minute("completed"), "green")


def _new(each: TypeSnapshot, snapshot: TopSnapshot) -> Text:
    return _rate(each.per_minute("created", "retried"), "")


def _workers(each: TypeSnapshot, snapshot: TopSnapshot) -> Text:
    unattended = each.row is not None and each.row.is_unattended
    return _count(
        each.workers, "bold red" if unattended else "", zero="bold red" if unattended else "dim"
    )


_COLUMNS: Final[dict[str, Callable[[TypeSnapshot, TopSnapshot], Text]]] = {
    "waiting": _waiting,
    "oldest": _oldest,
    "new/min": _new,
    "done/min": _done,
    "errors/min": _errors,
    "workers": _workers,
}


def _name_style(each: TypeSnapshot) -> str:
    """Yellow if paused, red if jobs wait and no worker is available."""
    if each.row is None:
        return ""
    if each.row.queue is not None and each.row.queue.consumer.is_paused:
        return "yellow"
    return "red" if each.row.is_unattended else ""


def _count(number: int | None, style: str, zero: str = "dim") -> Text:
    return Text("" if number is None else count(number), style if number else zero)


def _rate(per_minute: float | None, style: str) -> Text:
    return Text("" if per_minute is None else rate(per_minute), style if per_minute else "dim")


def _line(words: str, style: str) -> Text:
    return Text(words, style, no_wrap=True, overflow="ellipsis")
