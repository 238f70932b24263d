"""A line without axes, as large as a word: how a number went lately."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from markupsafe import Markup

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH: Final = 100.0
HEIGHT: Final = 20.0
# Keeps the stroke within the picture.
_MARGIN: Final = 1.0


def sparkline_points(values: Sequence[float]) -> list[tuple[float, float]]:
    """One point for each value, from left to right; the largest value is at the top."""
    largest = max(values, default=0) or 1
    step = WIDTH / max(1, len(values) - 1)
    usable = HEIGHT - 2 * _MARGIN
    return [
        (round(index * step, 2), round(HEIGHT - _MARGIN - value / largest * usable, 2))
        for index, value in enumerate(values)
    ]


def sparkline(values: Sequence[float], label: str) -> Markup:
    """Empty without values, or if all of them are zero: a flat line says nothing."""
    if not any(values):
        return Markup("")
    points = " ".join(f"{x},{y}" for x, y in sparkline_points(values))
    return Markup(
        '<svg class="sparkline" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" '
        'aria-label="{}"><title>{}</title><polyline points="{}"/></svg>'
    ).format(WIDTH, HEIGHT, label, label, points)
