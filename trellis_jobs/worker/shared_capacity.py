"""The slots of one queue in a process with a total limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.worker.capacity import Capacity

if TYPE_CHECKING:
    from collections.abc import Callable


class SharedCapacity(Capacity):
    """A slot of the queue is also a slot of the process, and a job keeps it to its end.

    `shared_free` tells how many slots of the process are free, `on_start` is called when a job
    gets one, and `schedule` decides which queue gets a slot that has become free.
    """

    def __init__(
        self,
        limit: int,
        schedule: Callable[[], None],
        shared_free: Callable[[], int],
        on_start: Callable[[], None],
    ) -> None:
        super().__init__(limit, schedule)
        self._shared_free = shared_free
        self._on_start = on_start

    @property
    def waiting(self) -> int:
        return sum(not granted.done() for granted in self._waiting)

    @property
    def free(self) -> int:
        return max(0, min(self.limit - self.in_use, self._shared_free()))

    def try_acquire(self) -> bool:
        if self.free == 0:
            return False
        self._take_slot()
        return True

    async def acquire(self) -> None:
        granted = self._wait_for_slot()
        self._on_free()
        await self._until_granted(granted)

    def grant(self) -> None:
        """Gives a slot to the first waiting job."""
        while self._waiting:
            granted = self._waiting.popleft()
            if not granted.done():
                self._take_slot()
                granted.set_result(None)
                return

    def release_slot(self) -> bool:
        """A job is active in the log until its outcome is written, so it keeps its slot."""
        return False

    def _pass_on(self) -> None:
        self.in_use -= 1
        self._on_free()

    def _take_slot(self) -> None:
        self.in_use += 1
        self._begin()
        self._on_start()
