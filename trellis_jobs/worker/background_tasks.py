"""The tasks of a worker. An error in one is logged and never ends the worker."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Coroutine

log = logging.getLogger(__name__)

_CANCEL_TIMEOUT: Final = 1.0


class BackgroundTasks:
    """Not a TaskGroup: that would wait forever for a handler that ignores its cancellation."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(self._loop.create_task(self._run_and_log(work)))

    @property
    def are_cancelled(self) -> bool:
        """Whether all tasks were cancelled: by close(), or because the event loop ends."""
        return all(task.cancelling() for task in self._tasks)

    async def close(self) -> None:
        """Cancels all tasks, and leaves those behind that do not end within a second."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            _, stubborn = await asyncio.wait(self._tasks, timeout=_CANCEL_TIMEOUT)
            if stubborn:
                log.error(
                    "%s background tasks of the worker did not stop when they were cancelled; they "
                    "end with the process",
                    len(stubborn),
                    extra={"count": len(stubborn)},
                )

    async def _run_and_log(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            name = getattr(work, "__qualname__", "?")
            log.exception("background task %s of the worker failed", name, extra={"task": name})
        finally:
            # A done callback would cost one more iteration of the event loop for each job.
            if (task := asyncio.current_task(self._loop)) is not None:
                self._tasks.discard(task)
