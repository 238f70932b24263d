"""The daemon's loops by name: each starts itself again after an error, and says how it fares."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime, timedelta

log = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0


@dataclass(slots=True)
class Loop:
    """`last_error` is None while all is well."""

    name: str
    last_success: datetime | None = None
    last_error: str | None = None
    failures: int = 0


@dataclass(slots=True)
class Loops:
    now: Callable[[], datetime]
    all: dict[str, Loop] = field(default_factory=dict)

    async def keep(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work`, which does not end by itself; after an error again, a little later."""
        loop, pause = self._new(name), _FIRST_PAUSE
        while True:
            began = asyncio.get_running_loop().time()
            try:
                await work()
            except Exception as error:
                self._failed(loop, error)
            if asyncio.get_running_loop().time() - began > _LONGEST_PAUSE:
                pause = _FIRST_PAUSE
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def repeat(
        self, name: str, every: timedelta, work: Callable[[], Awaitable[None]]
    ) -> None:
        """Run `work` again and again; an error costs one turn."""
        loop = self._new(name)
        while True:
            try:
                await work()
            except Exception as error:
                self._failed(loop, error)
            else:
                loop.last_success, loop.last_error = self.now(), None
            await asyncio.sleep(every.total_seconds())

    def _new(self, name: str) -> Loop:
        loop = self.all[name] = Loop(name)
        return loop

    def _failed(self, loop: Loop, error: Exception) -> None:
        loop.failures += 1
        loop.last_error = f"{type(error).__name__}: {error}"
        log.error(
            "a loop of the admin runtime failed, and goes on",
            extra={"loop": loop.name, "failures": loop.failures},
            exc_info=error,
        )
