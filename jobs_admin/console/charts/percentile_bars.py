"""How long attempts take: the median and the slow ones, on a scale that holds all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from trellis_jobs.model.durations import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH: Final = 300.0
_FASTEST_MS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Percentiles:
    """In milliseconds."""

    name: str
    p50: float
    p95: float
    p99: float


def percentile_words(found: Percentiles) -> str:
    times = (found.p50, found.p95, found.p99)
    half, most, slow = (format_duration(timedelta(milliseconds=each)) for each in times)
    return (
        f"{found.name}: half of the attempts within {half}, 95 % within {most}, 99 % within {slow}"
    )


def positions(rows: Sequence[Percentiles]) -> list[tuple[float, float, float]]:
    """Where p50, p95 and p99 of each row are, on one logarithmic scale."""
    longest = max((row.p99 for row in rows), default=_FASTEST_MS)
    end = math.log10(max(longest, 10 * _FASTEST_MS))
    return [(_place(row.p50, end), _place(row.p95, end), _place(row.p99, end)) for row in rows]


def _place(milliseconds: float, end: float) -> float:
    return round(math.log10(max(milliseconds, _FASTEST_MS)) / end * WIDTH, 1)


def percentile_bars(rows: Sequence[Percentiles]) -> list[Markup]:
    """A picture for each row, all on one scale: thick up to the median, thinner up to p95, then a
    line to p99.
    """
    return [_draw(row, places) for row, places in zip(rows, positions(rows), strict=True)]


def _draw(row: Percentiles, places: tuple[float, float, float]) -> Markup:
    p50, p95, p99 = (max(2.0, place) for place in places)
    words = percentile_words(row)
    return Markup(
        '<svg class="percentiles" viewBox="0 0 {} 8" preserveAspectRatio="none" role="img" '
        'aria-label="{}"><title>{}</title>'
        '<rect class="p99" y="3.25" width="{}" height="1.5"/>'
        '<rect class="p95" y="2" width="{}" height="4"/>'
        '<rect class="p50" width="{}" height="8"/></svg>'
    ).format(WIDTH, words, words, p99, p95, p50)
