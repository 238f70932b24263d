"""The most telling columns as a picture: one panel each, the best on top, ours in colour.

It has its own background, light or dark as the reader's system: legible on any page.
"""

from __future__ import annotations

from typing import Final
from xml.sax.saxutils import escape

from benchmarks.peers import cells
from benchmarks.peers.columns import Column
from benchmarks.peers.contestants import OURS
from benchmarks.peers.figures import Figure
from benchmarks.peers.summary import Spread, Summary

PANEL_WIDTH: Final = 440
NAME_WIDTH: Final = 118
BAR_WIDTH: Final = 240
ROW: Final = 20
BAR: Final = 12
HEAD: Final = 44
MARGIN: Final = 20
CUT_OFF: Final = 12  # a time this many times the best is not drawn to scale

STYLE: Final = """
.back { fill: #ffffff } text { fill: #1f2328; font: 12px system-ui, sans-serif }
.title { font-weight: 600; font-size: 13px } .less { fill: #59636e }
.ours { fill: #0969da } .peer { fill: #afb8c1 } .range { stroke: #1f2328; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
  .back { fill: #0d1117 } text { fill: #e6edf3 } .less { fill: #9198a1 }
  .ours { fill: #4493f8 } .peer { fill: #57606a } .range { stroke: #e6edf3 }
}
"""


PANELS: Final = (
    Column("Enqueued per second, the fastest way", cells.MANY, Figure.JOBS_PER_SECOND),
    Column("Drained per second, results kept", cells.DRAIN_FULL, Figure.JOBS_PER_SECOND),
    Column("End to end per second, results kept", cells.END_TO_END_FULL, Figure.JOBS_PER_SECOND),
    Column("Pickup p99, ms (less is better)", cells.PICKUP, Figure.PICKUP_P99, 1),
)


def chart(summary: Summary) -> str:
    ranked = [(panel, _ranked(summary, panel)) for panel in PANELS]
    rows = max(len(bars) for _, bars in ranked)
    height = HEAD + rows * ROW + MARGIN
    drawn = [
        _panel(panel, bars, x=(n % 2) * PANEL_WIDTH + MARGIN, y=(n // 2) * height + MARGIN)
        for n, (panel, bars) in enumerate(ranked)
    ]
    size = f"{2 * PANEL_WIDTH + MARGIN} {2 * height + MARGIN}"
    width, tall = size.split()
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" width="{width}" '
            f'height="{tall}" role="img" aria-label="trellis-jobs and other job systems">',
            f"<style>{STYLE}</style>",
            '<rect class="back" width="100%" height="100%" rx="8"/>',
            *drawn,
            "</svg>\n",
        )
    )


def _ranked(summary: Summary, panel: Column) -> list[tuple[str, Spread]]:
    """The best first."""
    found = [(name, spread) for name in summary.contestants if (spread := panel.of(name, summary))]
    return sorted(found, key=lambda one: one[1].median, reverse=not panel.less_is_better)


def _panel(panel: Column, bars: list[tuple[str, Spread]], x: int, y: int) -> str:
    scale = BAR_WIDTH / _longest(panel, [spread.median for _, spread in bars])
    lines = [f'<text class="title" x="0" y="14">{escape(panel.title)}</text>']
    for row, (name, spread) in enumerate(bars):
        lines += [_name(name, row), *_bar(name, spread, scale, row)]
        lines.append(_value(panel.shown(spread.median), _end_of(spread, scale), row))
    return "\n".join((f'<g transform="translate({x} {y})">', *lines, "</g>"))


def _longest(panel: Column, medians: list[float]) -> float:
    """What the longest bar stands for."""
    most = CUT_OFF * min(medians, default=1.0) if panel.less_is_better else float("inf")
    return max((median for median in medians if median <= most), default=1.0)


def _name(name: str, row: int) -> str:
    x, y = NAME_WIDTH - 8, _middle(row) + 4
    return f'<text x="{x}" y="{y}" text-anchor="end">{escape(name)}</text>'


def _value(value: str, x: float, row: int) -> str:
    return f'<text class="less" x="{x + 6:.1f}" y="{_middle(row) + 4}">{value}</text>'


def _bar(name: str, spread: Spread, scale: float, row: int) -> list[str]:
    """With a line from the least to the most; a bar that is cut has a gap instead."""
    y, width = _middle(row) - BAR // 2, min(BAR_WIDTH, spread.median * scale)
    kind = "ours" if name == OURS else "peer"
    bar = f'<rect class="{kind}" x="{NAME_WIDTH}" y="{y}" width="{width:.1f}" height="{BAR}"/>'
    if _is_cut(spread, scale):
        gap = f"M{NAME_WIDTH + BAR_WIDTH - 20} {y + BAR}l6 -{BAR}h5l-6 {BAR}z"
        return [bar, f'<path class="back" d="{gap}"/>']
    least, most = NAME_WIDTH + spread.least * scale, _end_of(spread, scale)
    return [bar, f'<path class="range" d="M{least:.1f} {_middle(row)}H{most:.1f}"/>']


def _end_of(spread: Spread, scale: float) -> float:
    return NAME_WIDTH + min(BAR_WIDTH, spread.most * scale)


def _is_cut(spread: Spread, scale: float) -> bool:
    return spread.median * scale > BAR_WIDTH * 1.001


def _middle(row: int) -> int:
    return HEAD - ROW // 2 + row * ROW
