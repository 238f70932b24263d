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
_P50, _P95, _P99 = 0.5, 0.95, 0.99


def durations_view(
    histogram: Histogram, steps: Sequence[Histogram] | None = None
) -> DurationsView | None:
    """Returns None if there were no attempts."""
    if not histogram:
        return None
    return DurationsView(
        attempts=sum(histogram.values()),
        p50_ms=percentile(histogram, _P50),
        p95_ms=percentile(histogram, _P95),
        p99_ms=percentile(histogram, _P99),
        buckets=tuple(_bucket_view(bucket, histogram[bucket]) for bucket in sorted(histogram)),
        steps=None if steps is None else _step_percentiles(steps),
    )


def percentile(histogram: Histogram, fraction: float) -> float:
    """In milliseconds, as if the attempts of a bucket were spread evenly over it."""
    rank = fraction * sum(histogram.values())
    for bucket in sorted(histogram):
        if rank <= histogram[bucket]:
            low, high = _bounds(bucket)
            share = rank / histogram[bucket]
            return round(low + share * ((high or low) - low), 3)
        rank -= histogram[bucket]
    raise ValueError("a histogram without attempts has no percentiles")


def _bounds(bucket: int) -> tuple[float, float | None]:
    low = BOUNDS[bucket - 1] / _MILLISECOND if bucket else 0.0
    return low, BOUNDS[bucket] / _MILLISECOND if bucket < len(BOUNDS) else None


def _bucket_view(bucket: int, attempts: int) -> BucketView:
    low, high = _bounds(bucket)
    return BucketView(from_ms=low, to_ms=high, attempts=attempts)


def _step_percentiles(steps: Sequence[Histogram]) -> StepPercentiles:
    p50, p95, p99 = (
        tuple(percentile(step, fraction) if step else None for step in steps)
        for fraction in (_P50, _P95, _P99)
    )
    return StepPercentiles(p50_ms=p50, p95_ms=p95, p99_ms=p99)
