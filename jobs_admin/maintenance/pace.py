"""Keeps maintenance from slowing down running work."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final, TypeVar

from jobs_admin.gather_limited import MAX_CONCURRENT, gather_limited

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

T = TypeVar("T")
R = TypeVar("R")

# The pause after each group of requests, as a multiple of the time that they took.
REST: Final = 9.0
# The log counts as busy for this long after it grew.
BUSY_SECONDS: Final = 1.0


@dataclass(slots=True)
class Pace:
    """`position`: how far the projection is. It moves while anything is written to the log."""

    position: Callable[[], int]
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _last_position: int | None = None
    _moved_at: float = -inf

    async def each(
        self,
        work: Callable[[T], Awaitable[R]],
        items: Sequence[T],
        report_progress: Callable[[], None] = lambda: None,
    ) -> list[R]:
        """Return the results in order; a group is finished before its first error is raised.

        While the log grows, pauses take nine tenths of the time, so a busy server, which answers
        slowly, gets fewer requests.
        """
        results: list[R] = []
        for start in range(0, len(items), MAX_CONCURRENT):
            began = self.monotonic()
            results += await gather_limited(work, items[start : start + MAX_CONCURRENT])
            report_progress()
            if self._is_log_busy():
                await self.sleep(REST * (self.monotonic() - began))
        return results

    def _is_log_busy(self) -> bool:
        position, now = self.position(), self.monotonic()
        if self._last_position not in (None, position):
            self._moved_at = now
        self._last_position = position
        return now - self._moved_at < BUSY_SECONDS
