"""What is to happen in a service of a test, and when."""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from datetime import datetime

    from trellis_jobs.worker.background_tasks import BackgroundTasks

# Timers of the same moment fire in the order in which they were set, also those of two services.
_numbers: Final = count()


@dataclass(frozen=True, slots=True, order=True)
class Timer:
    """`what` describes it in an error, as in "the alarm of job 7"."""

    at: datetime
    number: int
    what: str = field(compare=False)
    action: Callable[[], Coroutine[Any, Any, None]] = field(compare=False)


class Timers:
    """The timers of one service. A Clock fires them; without one they never fire."""

    def __init__(self, background: BackgroundTasks) -> None:
        self._background = background
        self._heap: list[Timer] = []

    def set(self, at: datetime, what: str, action: Callable[[], Coroutine[Any, Any, None]]) -> None:
        heapq.heappush(self._heap, Timer(at, next(_numbers), what, action))

    @property
    def next(self) -> Timer | None:
        return self._heap[0] if self._heap else None

    async def fire_next(self) -> None:
        """Returns when the action of the next timer is done."""
        await self.complete(heapq.heappop(self._heap).action())

    async def complete(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs in a separate task, which goes on if the caller is cancelled."""
        done = asyncio.Event()

        async def run() -> None:
            try:
                await work
            finally:
                done.set()

        self._background.spawn(run())
        await done.wait()
