"""How many attempts of a queue go on in one turn of the event loop, if many could."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

_AT_ONCE: Final = 8


class SettleThrottle:
    """Of those that come together a few are let through in each turn, in their order.

    Handlers that begin together end together. If all of them went on in one turn, nothing would be
    sent or read before the last had: their outcomes, then their answers, then the next jobs, each
    step for all before the next step for any, and seats empty meanwhile. A few at a time, the next
    job of the first starts while the outcome of the last is still to be written.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._passed = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def pass_now(self) -> bool:
        if self._passed == _AT_ONCE:
            return False
        self._count()
        return True

    def wait(self) -> asyncio.Future[None]:
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(turn)
        return turn

    def _count(self) -> None:
        if self._passed == 0:
            self._loop.call_soon(self._begin_anew)
        self._passed += 1

    def _begin_anew(self) -> None:
        self._passed = 0
        while self._waiting and self._passed < _AT_ONCE:
            turn = self._waiting.popleft()
            if not turn.done():
                self._count()
                turn.set_result(None)
