"""The chart of what happened lately: which kinds of events, over which time, and its marks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from jobs_admin.console.charts.stacked_bars import Mark, bar_chart

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from jobs_admin.api.views.history import HistoryView
    from jobs_admin.api.views.workers import WorkerProcessView
    from jobs_admin.console.charts.stacked_bars import BarChart

# From the bottom to the top. What becomes of a try, and the ends that no try causes.
SHOWN: Final = ("completed", "retry", "failed", "dead", "other")
_OTHER: Final = ("cancelled", "expired", "skipped", "stale")


@dataclass(frozen=True, slots=True)
class Span:
    """How much of the past a chart shows. `name` is its value in the address of the page."""

    name: str
    words: str
    length: timedelta
    step: timedelta


_MINUTE: Final = timedelta(minutes=1)
_HOUR: Final = timedelta(hours=1)
SPANS: Final = (
    Span("hour", "last hour", _HOUR, _MINUTE),
    Span("day", "last day", timedelta(days=1), _HOUR),
    Span("week", "last week", timedelta(days=7), _HOUR),
)


def span_of(name: str | None) -> Span:
    return next((span for span in SPANS if span.name == name), SPANS[0])


def activity_chart(history: HistoryView, marks: Sequence[Mark] = ()) -> BarChart:
    series = shown_series(history.events)
    return bar_chart(series, history.since, timedelta(minutes=history.step_minutes), marks)


def shown_series(events: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int]]:
    others = [events[kind] for kind in _OTHER if kind in events]
    summed = [sum(counts) for counts in zip(*others, strict=False)]
    found = {kind: events[kind] for kind in SHOWN if kind in events}
    return {**found, "other": summed} if summed else found


def version_marks(workers: Iterable[WorkerProcessView], since: datetime) -> list[Mark]:
    """When the first worker of each version of an application started, of those that are known.

    The oldest version of a service gets no mark: nothing changed with it.
    """
    first: dict[tuple[str, str], datetime] = {}
    for worker in workers:
        if worker.app_version is not None:
            version = (worker.service, worker.app_version)
            first[version] = min(first.get(version, worker.started_at), worker.started_at)
    oldest: dict[str, datetime] = {}
    for (service, _), at in first.items():
        oldest[service] = min(oldest.get(service, at), at)
    return [
        Mark(at, f"{service} {version} appeared")
        for (service, version), at in sorted(first.items(), key=lambda each: each[1])
        if at >= since and at > oldest[service]
    ]
