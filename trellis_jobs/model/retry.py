"""How long to wait before the next try."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from trellis_jobs.model.values import Value

# Spreads tries that failed together; only ever longer, so a declared delay is a promise.
JITTER: Final = 0.1


class RetryPolicy(Value, frozen=True):
    max_tries: int
    delays: tuple[timedelta, ...]

    def delay_after(self, tries: int, random: float) -> timedelta:
        """The delay once `tries` tries are used up; the last one repeats. `random` is in [0, 1)."""
        if not self.delays:
            return timedelta()
        declared = self.delays[min(tries, len(self.delays)) - 1]
        return declared * (1 + JITTER * random)
