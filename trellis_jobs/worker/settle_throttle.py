"""Limits how many attempts of a queue start to settle in one iteration of the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

_MAX_PER_ITERATION: Final = 8


class SettleThrottle:
    """Lets a few attempts pass in each iteration, in the order in which they came.

    Handlers that start together end together. If all of them settled in one iteration, the loop
    would send and read nothing until the last one had: first all outcomes, then all answers, then
    all new jobs, with free slots meanwhile. When a few settle at a time, the next job starts in the
    slot of the first while the outcome of the last is still to be written.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._count = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def try_pass(self) -> bool:
        if self._count == _MAX_PER_ITERATION:
            return False
        self._count_pass()
        return True

    def wait(self) -> asyncio.Future[None]:
        passed: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(passed)
        return passed

    def _count_pass(self) -> None:
        if self._count == 0:
            self._loop.call_soon(self._start_iteration)
        self._count += 1

    def _start_iteration(self) -> None:
        self._count = 0
        while self._waiting and self._count < _MAX_PER_ITERATION:
            passed = self._waiting.popleft()
            if not passed.done():
                self._count_pass()
                passed.set_result(None)
