"""How fast jobs arrive, are tried, fail and leave, from the counts of events per minute."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from trellis_jobs.model.events import EventKind
from trellis_jobs.model.states import OVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ARRIVALS: Final = (EventKind.CREATED, EventKind.RETRIED)
FAILURES: Final = (EventKind.RETRY, EventKind.FAILED, EventKind.DEAD, EventKind.STALE)
# Jobs that end; `dismissed` is about a job that has ended before.
_ENDS: Final = tuple(state.value for state in OVER if state.value != EventKind.DISMISSED)


@dataclass(frozen=True, slots=True)
class QueueRates:
    """Events per minute. `failing` counts tries, and `leaving` jobs that ended, also by failing."""

    arriving: float
    trying: float
    failing: float
    leaving: float

    @property
    def error_share(self) -> float | None:
        """The share of tries that failed; None if there were none."""
        return min(1.0, self.failing / self.trying) if self.trying else None

    def time_to_drain(self, jobs: int) -> timedelta | None:
        """How long these jobs take at this pace; None if more arrive than leave."""
        if not jobs:
            return timedelta(0)
        net = self.leaving - self.arriving
        return timedelta(minutes=jobs / net) if net > 0 else None


def queue_rates(per_minute: Mapping[str, float]) -> QueueRates:
    return QueueRates(
        arriving=rate_of(per_minute, ARRIVALS),
        trying=rate_of(per_minute, (EventKind.STARTED,)),
        failing=rate_of(per_minute, FAILURES),
        leaving=rate_of(per_minute, _ENDS),
    )


def rate_of(per_minute: Mapping[str, float], kinds: Iterable[str]) -> float:
    return round(sum(per_minute.get(kind, 0.0) for kind in kinds), 2)
