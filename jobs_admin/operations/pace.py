"""An even rate limit."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

# Timers fire a little late. This much delay is made up for, and no more, to avoid bursts.
_SLACK: Final = 0.1


class Pace:
    """`rate` is per second; None means no limit."""

    def __init__(self, rate: float | None) -> None:
        self._between = 0.0 if rate is None else 1 / rate
        self._next = 0.0

    def next_at(self, now: float) -> float:
        """Return when the next item may start; this may be in the past."""
        due = max(self._next, now - _SLACK)
        self._next = due + self._between
        return due

    async def wait_for_next(self, stop: asyncio.Event) -> None:
        """Wait until the next item may start, or `stop` is set."""
        now = asyncio.get_running_loop().time()
        due = self.next_at(now)
        if due > now:
            with suppress(TimeoutError):
                async with asyncio.timeout(due - now):
                    await stop.wait()
