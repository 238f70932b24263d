"""No more than so many a second, evenly."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

# Timers are late by a little: that much may be made up for, and no more, so that nothing bursts.
_SLACK: Final = 0.1


class Pace:
    """`rate` is per second; without one there is no delay."""

    def __init__(self, rate: float | None) -> None:
        self._between = 0.0 if rate is None else 1 / rate
        self._next = 0.0

    def next_at(self, now: float) -> float:
        """When the next one may go; that may be past."""
        due = max(self._next, now - _SLACK)
        self._next = due + self._between
        return due

    async def turn(self, stop: asyncio.Event) -> None:
        """Returns when it is time for the next one, or `stop` is set."""
        now = asyncio.get_running_loop().time()
        due = self.next_at(now)
        if due > now:
            with suppress(TimeoutError):
                async with asyncio.timeout(due - now):
                    await stop.wait()
