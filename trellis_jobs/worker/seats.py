"""How many attempts of a queue may run at once in this process, and who gets the next seat."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Seats:
    """`vacated` is called when a seat is free that nobody here waits for."""

    def __init__(self, count: int, vacated: Callable[[], None]) -> None:
        self.count = count
        self.taken = 0
        self._vacated = vacated
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._empty = asyncio.Event()
        self._empty.set()

    async def until_empty(self) -> None:
        await self._empty.wait()

    @property
    def free(self) -> int:
        """Those left once everybody who waits has one."""
        return max(0, self.count - self.taken - len(self._waiting))

    def take_now(self) -> bool:
        if self.free == 0:
            return False
        self.taken += 1
        self._empty.clear()
        return True

    async def take(self) -> None:
        """First come, first seated."""
        if self.take_now():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """The seat goes straight to the first who waits, or is free."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.taken -= 1
        if self.taken == 0:
            self._empty.set()
        self._vacated()
