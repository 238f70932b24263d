"""How often to try a job, and the delay before the next try or the next delivery."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from trellis_jobs.model.values import Value

# Random extra delay, as a share, so that jobs that failed together do not retry together.
# It only lengthens the delay: the declared delay is the minimum.
JITTER: Final = 0.1
# A job that snoozes every minute ends after 17 hours, and every hour after 6 weeks. Each snooze
# appends two events, so its history has about 1 MB by then.
DEFAULT_MAX_SNOOZES: Final = 1_000


class RetryPolicy(Value, frozen=True):
    """`max_snoozes`: how often handlers may snooze a job. One more fails it."""

    max_tries: int
    delays: tuple[timedelta, ...]
    max_snoozes: int = DEFAULT_MAX_SNOOZES

    def delay_after(self, tries: int, random: float) -> timedelta:
        """The delay after `tries` tries; the last declared one repeats. `random` is in [0, 1)."""
        if not self.delays:
            return timedelta()
        declared = self.delays[min(tries, len(self.delays)) - 1]
        return declared * (1 + JITTER * random)


class DoublingDelay(Value, frozen=True):
    """The delay before a message is delivered again; it doubles with each delivery, with jitter."""

    first: timedelta
    max_doublings: int

    def after(self, deliveries: int, random: float) -> timedelta:
        """The delay after `deliveries` deliveries. `random` is in [0, 1)."""
        doublings = min(deliveries - 1, self.max_doublings)
        return self.first * 2.0**doublings * (1 + random)
