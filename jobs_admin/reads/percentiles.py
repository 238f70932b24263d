"""Percentiles of durations that are counted in buckets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jobs_admin.api.views.history import BucketView, DurationsView, StepPercentiles
from jobs_admin.projection.durations import BOUNDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    # How many attempts are in each bucket.
    Histogram = Mapping[int, int]

_MILLISECOND: Final = 1000
_FRACTIONS: Final = (0.5, 0.95, 0.99)


def durations_view(
    histogram: Histogram, steps: Sequence[Histogram] | None = None
) -> DurationsView | None:
    """Returns None if there were no attempts."""
    if not histogram:
        return None
    p50, p95, p99 = percentiles(histogram, _FRACTIONS)
    return DurationsView(
        attempts=sum(histogram.values()),
        p50_ms=p50,
        p95_ms=p95,
        p99_ms=p99,
        buckets=tuple(_bucket_view(bucket, histogram[bucket]) for bucket in sorted(histogram)),
        steps=None if steps is None else _step_percentiles(steps),
    )


def percentiles(histogram: Histogram, fractions: Sequence[float]) -> list[float]:
    """In milliseconds, as if the attempts of a bucket were spread evenly over it.

    The fractions ascend. The histogram has at least one attempt.
    """
    buckets = sorted(histogram)
    total, at, below = sum(histogram.values()), 0, 0
    found = []
    for fraction in fractions:
        rank = fraction * total
        while rank > below + histogram[buckets[at]]:
            below += histogram[buckets[at]]
            at += 1
        low, high = _bounds(buckets[at])
        share = (rank - below) / histogram[buckets[at]]
        found.append(round(low + share * ((high or low) - low), 3))
    return found


def _bounds(bucket: int) -> tuple[float, float | None]:
    low = BOUNDS[bucket - 1] / _MILLISECOND if bucket else 0.0
    return low, BOUNDS[bucket] / _MILLISECOND if bucket < len(BOUNDS) else None


def _bucket_view(bucket: int, attempts: int) -> BucketView:
    low, high = _bounds(bucket)
    return BucketView(from_ms=low, to_ms=high, attempts=attempts)


def _step_percentiles(steps: Sequence[Histogram]) -> StepPercentiles:
    of_steps = [
        percentiles(step, _FRACTIONS) if step else [None] * len(_FRACTIONS) for step in steps
    ]
    p50, p95, p99 = zip(*of_steps, strict=True)
    return StepPercentiles(p50_ms=p50, p95_ms=p95, p99_ms=p99)
