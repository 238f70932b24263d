"""How many handlers of a queue may run at once in this process, and who gets the next seat."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Capacity:
    """`vacated` is called when a seat is free that nobody here waits for.

    Whoever took one is in the room until they leave, and may rise before: then another sits down.
    """

    def __init__(self, count: int, vacated: Callable[[], None]) -> None:
        self.count = count
        self.taken = 0
        self._present = 0
        self._vacated = vacated
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def is_empty(self) -> bool:
        return self._present == 0

    async def until_empty(self) -> None:
        await self._empty.wait()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def free(self) -> int:
        """Those left once everybody who waits has one."""
        return max(0, self.count - self.taken - len(self._waiting))

    def take_now(self) -> bool:
        if self.free == 0:
            return False
        self.taken += 1
        self._enter()
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
        """The room, and the seat with it: it is handed on first, lest the room seem empty."""
        self._hand_on()
        self.go()

    def rise(self) -> bool:
        """Another may sit down; False: as many as there are seats stand about already.

        Where there is one seat, jobs come one after the other, each with its outcome.
        """
        if self.count == 1 or self._present - self.taken >= self.count:
            return False
        self._hand_on()
        return True

    def go(self) -> None:
        """Whoever has risen leaves the room."""
        self._present -= 1
        if self._present == 0:
            self._empty.set()

    def _hand_on(self) -> None:
        """The seat goes straight to the first who waits, or is free."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                self._enter()
                turn.set_result(None)
                return
        self.taken -= 1
        self._vacated()

    def _enter(self) -> None:
        self._present += 1
        self._empty.clear()


class Seat:
    """One that was taken: its holder rises, or not, and leaves."""

    __slots__ = ("_is_held", "_seats")

    def __init__(self, seats: Capacity) -> None:
        self._seats = seats
        self._is_held = True

    def rise(self) -> None:
        if self._is_held:
            self._is_held = not self._seats.rise()

    def leave(self) -> None:
        if self._is_held:
            self._seats.leave()
        else:
            self._seats.go()
