"""One frame of `top`: as high as there is room for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.table import Table

from jobs_admin.api.views.health import HealthStatus, HealthView
from jobs_admin.cli.render.columns import Columns, fitting
from jobs_admin.cli.render.counts import count, rate
from jobs_admin.cli.render.states import STYLES
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.top.snapshot import FAILURES, Sight, TypeSight
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.states import JobState

_STATES: Final = {
    "pend": JobState.PENDING,
    "act": JobState.ACTIVE,
    "retry": JobState.RETRY,
    "dead": JobState.DEAD,
}
# On a narrow terminal these go first.
_DISPENSABLE: Final = ("new/m", "depth", "oldest", "work", "err/m")
# Heading, health, totals, a blank line, the table's head, and what is left out.
_FRAME_LINES: Final = 6


def frame(sight: Sight, heading: str, shown: Console) -> RenderableType:
    """On a terminal it fits; in a pipe it is whole."""
    room = max(1, shown.size.height - _FRAME_LINES) if shown.is_terminal else len(sight.types)
    by_rank = sorted(sight.types, key=lambda each: (each.rank, each.name))
    types = sorted(by_rank[:room], key=lambda each: each.name)
    left_out = len(sight.types) - len(types)
    return Group(
        _line(f"{heading}   {sight.at.astimezone():%H:%M:%S}", "bold"),
        health_line(sight),
        _totals(sight),
        Text(),
        _table(types, sight, shown.width),
        Text(f"and {count(left_out)} more, less urgent" if left_out else "", "dim"),
    )


def health_line(sight: Sight) -> Text:
    if sight.health is None:
        return _line(f"no numbers of jobs: {sight.trouble or 'the admin runtime is silent'}", "red")
    degraded = [c for c in sight.health.checks if c.status is not HealthStatus.OK]
    if degraded:
        told = "; ".join(f"{c.name}: {c.error or c.last_error or 'degraded'}" for c in degraded)
        return _line(f"admin runtime degraded: {told}", "yellow")
    return _line(f"admin runtime ok{_lag(sight.health)}", "green")


def _lag(health: HealthView) -> str:
    projection = health.check("projection")
    if projection is None or projection.lag_seconds is None:
        return ""
    return f", {format_duration(timedelta(seconds=projection.lag_seconds))} behind the log"


def _totals(sight: Sight) -> Text:
    counted = Text(no_wrap=True, overflow="ellipsis")
    for state in JobState:
        total = sum(each.state(state.value) or 0 for each in sight.types)
        if total:
            counted.append(f"{count(total)} {state.value}  ", STYLES[state])
    return counted


def _table(types: list[TypeSight], sight: Sight, room: int) -> Table:
    numbers = [*_STATES, *_COLUMNS]
    rows = [
        {"type": Text(each.name, _name_style(each))}
        | {column: _cell(column, each, sight) for column in numbers}
        for each in types
    ]
    columns = Columns(names=["type", *numbers], gives_way=_DISPENSABLE, right=numbers, gap=1)
    return fitting(columns, rows, room)


def _cell(column: str, each: TypeSight, sight: Sight) -> Text:
    state = _STATES.get(column)
    if state is None:
        return _COLUMNS[column](each, sight)
    return _count(each.state(state.value), STYLES[state])


def _oldest(each: TypeSight, sight: Sight) -> Text:
    """Since when the first has waited: the server's word, else the projection's."""
    at = each.row.oldest_at if each.row else None
    if at is None and each.stats is not None and each.row is None:
        at = each.stats.oldest_pending_at
    return Text("" if at is None else format_duration(max(sight.at - at, timedelta())))


def _depth(each: TypeSight, sight: Sight) -> Text:
    queue = each.row.queue if each.row else None
    return _count(None if queue is None else queue.consumer.pending, "")


def _errors(each: TypeSight, sight: Sight) -> Text:
    return _rate(each.per_minute(*FAILURES), "red")


def _done(each: TypeSight, sight: Sight) -> Text:
    return _rate(each.per_minute("completed"), "green")


def _new(each: TypeSight, sight: Sight) -> Text:
    return _rate(each.per_minute("created", "retried"), "")


def _workers(each: TypeSight, sight: Sight) -> Text:
    unattended = each.row is not None and each.row.is_unattended
    return _count(
        each.workers, "bold red" if unattended else "", zero="bold red" if unattended else "dim"
    )


_COLUMNS: Final[dict[str, Callable[[TypeSight, Sight], Text]]] = {
    "depth": _depth,
    "oldest": _oldest,
    "new/m": _new,
    "done/m": _done,
    "err/m": _errors,
    "work": _workers,
}


def _name_style(each: TypeSight) -> str:
    """Paused in yellow, without anybody in red."""
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
