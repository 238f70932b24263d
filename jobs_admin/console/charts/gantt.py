"""The layout of a Gantt chart of a job's runs: pure geometry, drawn by a template.

Jobs wait for weeks and run for milliseconds, so a linear scale would hide most of what happened.
The width of a bar grows with the logarithm of its time, the same way in every chart, and its label
has the exact time. Rows that are full continue in the next row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.console.words import short_id
from jobs_admin.explain.phase_words import INTERRUPTION_WORDS, PHASE_WORDS
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.timeline import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from jobs_admin.console.job.job_log import RunSpan

WIDTH: Final = 1000.0
LEFT: Final = 56.0
BAR_HEIGHT: Final = 34.0
ROW_HEIGHT: Final = 62.0
_BAR_TOP: Final = 20.0
MAX_BARS: Final = 48
_NARROWEST: Final = 46.0
_PER_DECADE: Final = 20.0
_MOST_STRETCHED: Final = 2.5
_CHARACTER: Final = 6.4
_PADDING: Final = 8.0

# A sign and a short name, so that colour never speaks alone.
_LABELS: Final[Mapping[Phase, tuple[str, str]]] = {
    Phase.WAITING_FOR_WORKER: ("○", "worker"),
    Phase.WAITING_FOR_KEY: ("⚿", "key"),
    Phase.WAITING: ("○", "worker or key"),
    Phase.BACKING_OFF: ("↻", "backoff"),
    Phase.SNOOZED: ("☾", "snoozed"),
    Phase.DELAYED: ("◷", "delayed"),
    Phase.RUNNING: ("▶", "running"),
    Phase.OVER: ("■", "ended"),
}


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of the chart. `label` and `time` are empty where there is no room for them.

    `words` says everything, and `caption` who ran the job, above a bar of an attempt.
    """

    x: float
    y: float
    width: float
    phase: str
    is_interrupted: bool
    is_open: bool
    label: str
    time: str
    caption: str
    words: str
    run: int
    begin: datetime
    sequence: int


@dataclass(frozen=True, slots=True)
class RunLabel:
    text: str
    y: float


@dataclass(frozen=True, slots=True)
class Mark:
    """Where an event is in the chart."""

    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Gantt:
    """`omitted` is the number of the oldest spans that are not drawn."""

    bars: tuple[Bar, ...]
    labels: tuple[RunLabel, ...]
    height: float
    omitted: int
    mark: Mark | None = None


def width_of(seconds: float) -> float:
    """The unstretched width of a bar: the same time has the same width in every chart."""
    return _NARROWEST + _PER_DECADE * math.log10(1 + max(0.0, seconds) * 1_000)


def stretch_of(*charts: Sequence[RunSpan], now: datetime) -> float:
    """The factor by which bars are widened if all runs leave room; of several charts, the same."""
    longest = max((_run_width(spans, now) for spans in charts), default=0.0)
    room = WIDTH - LEFT
    return min(_MOST_STRETCHED, max(1.0, room / longest)) if longest else 1.0


def gantt(
    spans: Sequence[RunSpan], now: datetime, *, at: datetime | None = None, stretch: float = 0.0
) -> Gantt:
    """Lay out the newest spans. `at` is the time of an event to mark."""
    shown = spans[-MAX_BARS:]
    factor = stretch or stretch_of(shown, now=now)
    bars: list[Bar] = []
    labels: list[RunLabel] = []
    x, y, run = LEFT, -ROW_HEIGHT, 0
    for each in shown:
        width = min(width_of(each.span.length(now).total_seconds()) * factor, WIDTH - LEFT)
        if each.run != run:
            x, y, run = LEFT, y + ROW_HEIGHT, each.run
            labels.append(RunLabel(f"run {run}", y + _BAR_TOP + BAR_HEIGHT / 2 + 4))
        elif x + width > WIDTH + 0.01:
            x, y = LEFT, y + ROW_HEIGHT
        bars.append(_bar(each, x, y + _BAR_TOP, width, now))
        x += width
    mark = None if at is None else _mark(bars, shown, at, now)
    return Gantt(tuple(bars), tuple(labels), y + ROW_HEIGHT, len(spans) - len(shown), mark)


def span_words(each: RunSpan, now: datetime) -> str:
    """`ran 1.2 s, interrupted: the worker died`; of one that lasts, `… so far`."""
    span = each.span
    past, present = PHASE_WORDS[span.phase]
    length = format_duration(span.length(now))
    words = [f"{past} {length}" if span.end else f"{present}, {length} so far"]
    if span.interrupted_by is not None:
        words.append(INTERRUPTION_WORDS[span.interrupted_by])
    if each.started is not None:
        words.append(_attempt_words(each))
    return ", ".join(filter(None, words))


def _attempt_words(each: RunSpan) -> str:
    started = each.started
    if started is None:
        return ""
    worker = f" on {started.attempt.instance}" if started.attempt else ""
    version = f", version {started.app_version}" if started.app_version else ""
    return f"try {started.tries}{worker}{version}"


def _run_width(spans: Sequence[RunSpan], now: datetime) -> float:
    """The width of the widest run; at most what fits, because wider ones continue below."""
    by_run: dict[int, float] = {}
    for each in spans:
        width = width_of(each.span.length(now).total_seconds())
        by_run[each.run] = by_run.get(each.run, 0.0) + width
    return min(max(by_run.values(), default=0.0), WIDTH - LEFT)


def _bar(each: RunSpan, x: float, y: float, width: float, now: datetime) -> Bar:
    span = each.span
    sign, name = _LABELS[span.phase]
    time = format_duration(span.length(now))
    caption = _caption(each, width)
    return Bar(
        x=round(x, 1),
        y=round(y, 1),
        width=round(width, 1),
        phase=span.phase.value,
        is_interrupted=span.interrupted_by is not None,
        is_open=span.end is None,
        label=f"{sign} {name}" if _fits(f"{sign} {name}", width) else sign,
        time=time if _fits(time, width) else "",
        caption=caption,
        words=span_words(each, now),
        run=each.run,
        begin=span.begin,
        sequence=each.sequence,
    )


def _caption(each: RunSpan, width: float) -> str:
    started = each.started
    if started is None:
        return ""
    worker = short_id(started.attempt.instance) if started.attempt else ""
    texts = (f"try {started.tries}", worker, started.app_version or "")
    full = " · ".join(filter(None, texts))
    room = int((width - 2) / _CHARACTER * 1.15)
    return full if len(full) <= room else f"{full[: max(1, room - 1)]}…"


def _fits(text: str, width: float) -> bool:
    return len(text) * _CHARACTER + _PADDING <= width


def _mark(
    bars: Sequence[Bar], spans: Sequence[RunSpan], at: datetime, now: datetime
) -> Mark | None:
    """Within a bar, the time is linear. Before the first bar and after the last, at their edges."""
    for bar, each in zip(reversed(bars), reversed(spans), strict=True):
        if each.span.begin <= at:
            whole = each.span.length(now).total_seconds()
            part = (at - each.span.begin).total_seconds() / whole if whole else 0.0
            return Mark(round(bar.x + bar.width * min(1.0, part), 1), bar.y)
    return Mark(bars[0].x, bars[0].y) if bars else None
