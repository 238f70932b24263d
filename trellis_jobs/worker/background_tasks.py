"""The tasks of a worker: an error in one is said, never fatal, and none can hold up the end."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Coroutine

log = logging.getLogger(__name__)

_LAST_MOMENTS: Final = 1.0


class Background:
    """Not a TaskGroup, which waits for ever: a handler may refuse to be cancelled."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(self._loop.create_task(self._said_aloud(work)))

    async def close(self) -> None:
        """Cancel what is left, and leave behind what does not react."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            _, stubborn = await asyncio.wait(self._tasks, timeout=_LAST_MOMENTS)
            if stubborn:
                log.error(
                    "%s background tasks of the worker did not stop when they were cancelled",
                    len(stubborn),
                    extra={"count": len(stubborn)},
                )

    async def _said_aloud(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            name = getattr(work, "__qualname__", "?")
            log.exception("background task %s of the worker failed", name, extra={"task": name})
        finally:
            # Not by a callback of the task: that would be one more turn of the loop a job.
            if (task := asyncio.current_task(self._loop)) is not None:
                self._tasks.discard(task)
