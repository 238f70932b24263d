"""One frame of `top`, cut to the height of the terminal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.table import Table

from jobs_admin.api.queue_rates import ARRIVALS, FAILURES
from jobs_admin.api.views.health import HealthStatus, HealthView
from jobs_admin.api.views.queues import QueueView
from jobs_admin.cli.render.columns import Columns, fit_table
from jobs_admin.cli.render.counts import count, rate
from jobs_admin.cli.render.states import STYLES, state_name
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.top.snapshot import TopSnapshot, jobs_in, per_minute, rank
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.states import JobState

_DELAYED: Final = "delayed"
_STATES: Final = {
    _DELAYED: JobState.SCHEDULED,
    "pending": JobState.PENDING,
    "active": JobState.ACTIVE,
    "retry": JobState.RETRY,
    "dead": JobState.DEAD,
}
# Dropped first on a narrow terminal.
_DROPPED_FIRST: Final = (
    "new/min",
    "waiting",
    _DELAYED,
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
    total = len(snapshot.queues)
    max_rows = max(1, screen.size.height - _FRAME_LINES) if screen.is_terminal else total
    by_rank = sorted(snapshot.queues, key=lambda each: (rank(each), each.name))
    shown = sorted(by_rank[:max_rows], key=lambda each: each.name)
    hidden = total - len(shown)
    return Group(
        _line(f"{heading}   {snapshot.at.astimezone():%H:%M:%S}", "bold"),
        health_line(snapshot),
        _totals(snapshot),
        Text(),
        _table(shown, screen.width),
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
        total = sum(jobs_in(each, state.value) or 0 for each in snapshot.queues)
        if total:
            counted.append(f"{count(total)} {state_name(state)}  ", STYLES[state])
    return counted


def _table(queues: list[QueueView], width: int) -> Table:
    has_delayed = any(each.delayed for each in queues)
    numbers = [name for name in (*_STATES, *_COLUMNS) if name != _DELAYED or has_delayed]
    dropped_first = [name for name in _DROPPED_FIRST if name in numbers]
    rows = [
        {"type": Text(each.name, _name_style(each))}
        | {column: _cell(column, each) for column in numbers}
        for each in queues
    ]
    columns = Columns(names=["type", *numbers], dropped_first=dropped_first, right=numbers, gap=1)
    return fit_table(columns, rows, width)


def _cell(column: str, queue: QueueView) -> Text:
    state = _STATES.get(column)
    if state is None:
        return _COLUMNS[column](queue)
    return _count(jobs_in(queue, state.value), STYLES[state])


def _oldest(queue: QueueView) -> Text:
    """The age of the oldest waiting job, from the server, or else from the projection."""
    age = queue.oldest_age_ms
    return Text("" if age is None else format_duration(timedelta(milliseconds=age)))


def _waiting(queue: QueueView) -> Text:
    return _count(queue.depth, "")


def _errors(queue: QueueView) -> Text:
    return _rate(per_minute(queue, *FAILURES), "red")


def _done(queue: QueueView) -> Text:
    return _rate(per_minute(queue, "completed"), "green")


def _new(queue: QueueView) -> Text:
    return _rate(per_minute(queue, *ARRIVALS), "")


def _workers(queue: QueueView) -> Text:
    style, zero = ("bold red", "bold red") if queue.unattended else ("", "dim")
    return _count(queue.workers, style, zero)


_COLUMNS: Final[dict[str, Callable[[QueueView], Text]]] = {
    "waiting": _waiting,
    "oldest": _oldest,
    "new/min": _new,
    "done/min": _done,
    "errors/min": _errors,
    "workers": _workers,
}


def _name_style(queue: QueueView) -> str:
    """Yellow if paused, red if jobs wait and no worker is available."""
    if queue.paused:
        return "yellow"
    return "red" if queue.unattended else ""


def _count(number: int | None, style: str, zero: str = "dim") -> Text:
    return Text("" if number is None else count(number), style if number else zero)


def _rate(per_minute: float | None, style: str) -> Text:
    return Text("" if per_minute is None else rate(per_minute), style if per_minute else "dim")


def _line(words: str, style: str) -> Text:
    return Text(words, style, no_wrap=True, overflow="ellipsis")
