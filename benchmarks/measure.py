"""What one process measured: wall time, its own CPU time, and moments that others can compare."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

Moments = dict[int, float]


@dataclass(frozen=True, slots=True)
class Measured:
    """`began` and `ended` are on the machine's own clock, which all processes share."""

    jobs: int
    began: float
    ended: float
    cpu_seconds: float

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    def until(self, later: Measured) -> Measured:
        """What two processes did of the same jobs, the other one being done last."""
        cpu = self.cpu_seconds + later.cpu_seconds
        return Measured(self.jobs, self.began, later.ended, cpu)


@dataclass(frozen=True, slots=True)
class Drained:
    """When each job's handler was entered; the bare pump also knows when it got the message."""

    measured: Measured
    entered: Moments
    pulled: Moments


class Stopwatch:
    """Runs from its making until `stop`."""

    def __init__(self) -> None:
        self._began, self._cpu = now(), time.process_time()

    def stop(self, jobs: int) -> Measured:
        return Measured(jobs, self._began, now(), time.process_time() - self._cpu)


class Entries:
    """Counts jobs where a handler is entered; the time runs from the first of them."""

    def __init__(self, expected: int) -> None:
        self.moments: Moments = {}
        self._expected = expected
        self._all_entered = asyncio.Event()
        self._watch: Stopwatch | None = None

    def enter(self, number: int) -> None:
        if self._watch is None:
            self._watch = Stopwatch()
        self.moments[number] = now()
        if len(self.moments) == self._expected:
            self._all_entered.set()

    async def all_entered(self) -> None:
        await self._all_entered.wait()

    def stop(self) -> Measured:
        assert self._watch is not None
        return self._watch.stop(self._expected)


def now() -> float:
    """Seconds on a clock that is the same in every process of this machine."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)
