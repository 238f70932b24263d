"""One small bar for each hour: when something happened in the last day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from markupsafe import Markup

if TYPE_CHECKING:
    from collections.abc import Sequence

BAR_WIDTH: Final = 4
HEIGHT: Final = 20
# So that an hour with few events beside one with many is still seen.
_MIN_HEIGHT: Final = 2.0


def bar_heights(counts: Sequence[int]) -> list[float]:
    """The largest count has the whole height, and none has no height."""
    largest = max(counts, default=0) or 1
    return [
        max(_MIN_HEIGHT, round(count / largest * HEIGHT, 1)) if count else 0.0 for count in counts
    ]


def hour_bars(counts: Sequence[int], label: str) -> Markup:
    """The current hour is on the right."""
    bars = Markup("").join(
        Markup('<rect x="{}" y="{}" width="{}" height="{}"/>').format(
            index * BAR_WIDTH, HEIGHT - height, BAR_WIDTH - 1, height
        )
        for index, height in enumerate(bar_heights(counts))
        if height
    )
    width = BAR_WIDTH * len(counts)
    return Markup(
        '<svg class="hours" viewBox="0 0 {} {}" width="{}" height="{}" role="img" '
        'aria-label="{}"><title>{}</title>{}</svg>'
    ).format(width, HEIGHT, width, HEIGHT, label, label, bars)


def hours_label(counts: Sequence[int]) -> str:
    """The chart in words."""
    total, last = sum(counts), counts[-1] if counts else 0
    return f"{total:,} in the last {len(counts)} hours, {last:,} in the current hour"
