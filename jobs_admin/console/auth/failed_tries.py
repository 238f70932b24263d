"""Limits how often wrong passwords can be tried."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from trellis_jobs.model.bounded_dict import BoundedDict

if TYPE_CHECKING:
    from collections.abc import Callable

# Enough for typing errors, too few for guessing.
WINDOW: Final = 60.0
PER_ADDRESS: Final = 10
# An attacker with many addresses gets this many. It is higher, because these tries also keep the
# user out, except on devices where they are signed in.
PER_USER: Final = 30
_MAX_REMEMBERED: Final = 10_000


class FailedTries:
    """The times of failures by name, of the last `window` seconds."""

    def __init__(self, limit: int, window: float, now: Callable[[], float]) -> None:
        self._limit = limit
        self._window = window
        self._now = now
        self._failures: BoundedDict[str, deque[float]] = BoundedDict(_MAX_REMEMBERED)

    def wait(self, name: str) -> float:
        """How many seconds until another try is allowed; 0 if one is allowed now."""
        times = self._failures.get(name, deque())
        while times and times[0] <= self._now() - self._window:
            times.popleft()
        return 0.0 if len(times) < self._limit else times[0] + self._window - self._now()

    def record(self, name: str) -> None:
        times = self._failures.setdefault(name, deque(maxlen=self._limit))
        times.append(self._now())
