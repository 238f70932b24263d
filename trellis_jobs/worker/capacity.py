"""How many handlers of one queue may run at the same time in this process."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Capacity:
    """`limit` slots, one for each running handler.

    A job frees its slot when its handler returns, but counts as in progress until its outcome is
    written. `on_free` is called when a slot becomes free and no job in this process waits for one.
    """

    def __init__(self, limit: int, on_free: Callable[[], None]) -> None:
        self.limit = limit
        self.in_use = 0
        self._in_progress = 0
        self._on_free = on_free
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_idle(self) -> bool:
        return self._in_progress == 0

    async def until_idle(self) -> None:
        await self._idle.wait()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def free(self) -> int:
        """How many slots are left after every waiting job gets one."""
        return max(0, self.limit - self.in_use - len(self._waiting))

    def try_acquire(self) -> bool:
        if self.free == 0:
            return False
        self.in_use += 1
        self._begin()
        return True

    async def acquire(self) -> None:
        """Waits for a slot. Jobs get slots in the order in which they asked."""
        if not self.try_acquire():
            await self._until_granted(self._wait_for_slot())

    def _wait_for_slot(self) -> asyncio.Future[None]:
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(granted)
        return granted

    async def _until_granted(self, granted: asyncio.Future[None]) -> None:
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self.release_and_finish()
            raise

    def release_slot(self) -> bool:
        """Frees the slot of a job whose outcome is still to be written.

        Returns False, and the job keeps its slot, when as many jobs as there are slots are writing
        their outcomes already. A queue with one slot runs strictly one job after the other, so
        there the slot is kept until the outcome is written.
        """
        if self.limit == 1 or self._in_progress - self.in_use >= self.limit:
            return False
        self._pass_on()
        return True

    def finish(self) -> None:
        """Ends a job that has released its slot before."""
        self._in_progress -= 1
        if self._in_progress == 0:
            self._idle.set()

    def release_and_finish(self) -> None:
        # The slot is passed on first: otherwise the queue would seem idle for a moment.
        self._pass_on()
        self.finish()

    def _pass_on(self) -> None:
        """Gives the slot to the first waiting job, or frees it."""
        while self._waiting:
            granted = self._waiting.popleft()
            if not granted.done():
                self._begin()
                granted.set_result(None)
                return
        self.in_use -= 1
        self._on_free()

    def _begin(self) -> None:
        self._in_progress += 1
        self._idle.clear()


class CapacitySlot:
    """The acquired slot of one job. `release` is optional, `done` is always called last."""

    __slots__ = ("_capacity", "_is_held")

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._is_held = True

    def release(self) -> None:
        if self._is_held:
            self._is_held = not self._capacity.release_slot()

    def done(self) -> None:
        if self._is_held:
            self._capacity.release_and_finish()
        else:
            self._capacity.finish()
