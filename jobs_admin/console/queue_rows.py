"""What the overview and the list of queues show of each queue: a row of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.api.queue_rates import queue_rates
from trellis_jobs.model.durations import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobs_admin.api.queue_rates import QueueRates
    from jobs_admin.api.views.history import DurationsView, HistoryView, QueueHistory
    from jobs_admin.api.views.queues import QueueView


# Arrivals and ends that differ by less than this share of them are alike.
_ALIKE: Final = 0.05


def drain_words(rates: QueueRates, jobs: int) -> str:
    """In how long the jobs are done at this pace, or why that cannot be said."""
    if not jobs:
        return "now"
    if not rates.arriving and not rates.leaving:
        return "–"
    if abs(rates.leaving - rates.arriving) <= _ALIKE * rates.arriving:
        return "steady"
    drained = rates.time_to_drain(jobs)
    return "never" if drained is None else format_duration(drained)


@dataclass(frozen=True, slots=True)
class QueueRow:
    """`used` of `slots` slots of the workers that take jobs; None if there are none."""

    queue: QueueView
    rates: QueueRates
    slots: int | None
    used: int
    wait: DurationsView | None
    run: DurationsView | None

    @property
    def share_used(self) -> float | None:
        return min(1.0, self.used / self.slots) if self.slots else None

    @property
    def states(self) -> dict[str, int]:
        return self.queue.states or {}

    @property
    def drain(self) -> str:
        return drain_words(self.rates, self.queue.waiting)


def queue_rows(queues: Iterable[QueueView], history: HistoryView | None) -> list[QueueRow]:
    """Queues that need a look first: without workers, then paused, then those with most to do."""
    of = {(each.service, each.type): each for each in (history.queues if history else ())}
    rows = [_row(queue, of.get((queue.service, queue.type))) for queue in queues]
    return sorted(rows, key=_rank)


def _row(queue: QueueView, history: QueueHistory | None) -> QueueRow:
    return QueueRow(
        queue=queue,
        rates=queue_rates(queue.per_minute or {}),
        slots=queue.worker_slots,
        used=(queue.states or {}).get("active", queue.in_flight or 0),
        wait=history.wait if history else None,
        run=history.run if history else None,
    )


def _rank(row: QueueRow) -> tuple[bool, bool, float, str]:
    queue = row.queue
    return not queue.unattended, not queue.paused, -(row.rates.trying + queue.waiting), queue.name
