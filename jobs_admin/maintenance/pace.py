"""Keeps maintenance from slowing down running work."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final, TypeVar

from jobs_admin.maintenance.gather_limited import AT_ONCE, abreast

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

T = TypeVar("T")
R = TypeVar("R")

# After each group of requests, as a multiple of the time that the server took to answer them.
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
        went_on: Callable[[], None] = lambda: None,
    ) -> list[R]:
        """The results in order; every item is tried before the first error of its group is raised.

        While the log grows, pauses take nine tenths of the time: a busy server answers slowly, and
        is asked less often.
        """
        results: list[R] = []
        for start in range(0, len(items), AT_ONCE):
            began = self.monotonic()
            results += await abreast(work, items[start : start + AT_ONCE])
            went_on()
            if self._is_log_busy():
                await self.sleep(REST * (self.monotonic() - began))
        return results

    def _is_log_busy(self) -> bool:
        position, now = self.position(), self.monotonic()
        if self._last_position not in (None, position):
            self._moved_at = now
        self._last_position = position
        return now - self._moved_at < BUSY_SECONDS
