"""Bars over time, each made of several kinds of events on top of each other."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

HEIGHT: Final = 100.0
COLUMN: Final = 10.0
_GAP: Final = 1.5


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bar. `kind` is the kind of events that it counts."""

    kind: str
    count: int
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Bar:
    at: datetime
    x: float
    segments: tuple[Segment, ...]

    @property
    def total(self) -> int:
        return sum(each.count for each in self.segments)


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment that is marked in the chart, such as a new version."""

    at: datetime
    label: str


@dataclass(frozen=True, slots=True)
class BarChart:
    """`largest` is the height of the highest bar, in events."""

    bars: tuple[Bar, ...]
    step: timedelta
    largest: int
    marks: tuple[tuple[float, Mark], ...] = ()

    @property
    def width(self) -> float:
        return max(1, len(self.bars)) * COLUMN

    @property
    def is_empty(self) -> bool:
        return not any(bar.total for bar in self.bars)


def bar_chart(
    series: Mapping[str, Sequence[int]],
    since: datetime,
    step: timedelta,
    marks: Sequence[Mark] = (),
) -> BarChart:
    """`series` are from the bottom to the top. Marks outside of the chart are left out."""
    steps = max((len(counts) for counts in series.values()), default=0)
    totals = [sum(_at(counts, index) for counts in series.values()) for index in range(steps)]
    largest = max(totals, default=0)
    bars = tuple(
        Bar(since + index * step, index * COLUMN, _segments(series, index, largest))
        for index in range(steps)
    )
    end = since + steps * step
    placed = [(_x(mark, since, step), mark) for mark in marks if since <= mark.at < end]
    return BarChart(bars, step, largest, tuple(placed))


def _segments(series: Mapping[str, Sequence[int]], index: int, largest: int) -> tuple[Segment, ...]:
    found: list[Segment] = []
    top = HEIGHT
    for kind, counts in series.items():
        count = _at(counts, index)
        if count:
            height = count / largest * HEIGHT
            top -= height
            found.append(Segment(kind, count, round(top, 2), round(height, 2)))
    return tuple(found)


def _at(counts: Sequence[int], index: int) -> int:
    return counts[index] if index < len(counts) else 0


def _x(mark: Mark, since: datetime, step: timedelta) -> float:
    return round((mark.at - since) / step * COLUMN, 2)


def stacked_bars(chart: BarChart, label: str) -> Markup:
    """Without text in the picture, so that it can be as wide as the page."""
    bars = Markup("").join(_draw_bar(bar) for bar in chart.bars if bar.segments)
    marks = Markup("").join(_draw_mark(x, mark) for x, mark in chart.marks)
    return Markup(
        '<svg class="bars" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" '
        'aria-label="{}">{}{}</svg>'
    ).format(chart.width, HEIGHT, label, bars, marks)


def _draw_bar(bar: Bar) -> Markup:
    counts = ", ".join(f"{each.count:,} {each.kind}" for each in bar.segments)
    parts = Markup("").join(
        Markup('<rect class="event-{}" x="{}" y="{}" width="{}" height="{}"/>').format(
            each.kind, bar.x + _GAP / 2, each.y, COLUMN - _GAP, each.height
        )
        for each in bar.segments
    )
    when = f"{bar.at.astimezone(UTC):%Y-%m-%d %H:%M}Z"
    return Markup("<g><title>{}: {}</title>{}</g>").format(when, counts, parts)


def _draw_mark(x: float, mark: Mark) -> Markup:
    return Markup(
        '<g class="mark"><title>{}</title><line x1="{}" x2="{}" y1="0" y2="{}"/></g>'
    ).format(mark.label, x, x, HEIGHT)
