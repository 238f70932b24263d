"""Whether a job has really ended, once a hint came that it may have (design D22)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.errors import JobsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

log = logging.getLogger(__name__)

# A hint may overtake the event it announces: look again a few times before forgetting it.
_LOOKS: Final = (0.0, 0.005, 0.02, 0.05, 0.1, 0.3)
_AFTER_TROUBLE: Final = 0.5


class EndCheck:
    """`look` asks the log, and returns True when there is nothing left to look for."""

    def __init__(
        self,
        look: Callable[[], Awaitable[bool]],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._look = look
        self._spawn = spawn
        self._hinted = asyncio.Event()
        self._is_looking = False

    def hint(self) -> None:
        """Look, and look sooner if a look is under way already."""
        self._hinted.set()
        if not self._is_looking:
            self._is_looking = True
            self._spawn(self._keep_looking())

    async def _keep_looking(self) -> None:
        try:
            while self._hinted.is_set():
                self._hinted.clear()
                for pause in _LOOKS:
                    if await self._hinted_within(pause):
                        break
                    if await self._look_until_told():
                        return
        finally:
            self._is_looking = False

    async def _look_until_told(self) -> bool:
        """A log that cannot be read right now makes nobody forget the hint."""
        while True:
            try:
                return await self._look()
            except JobsError as error:
                log.warning(
                    "cannot read whether a running job has ended, retrying in %g s: %s",
                    _AFTER_TROUBLE,
                    error,
                    extra={"error": str(error)},
                )
                await asyncio.sleep(_AFTER_TROUBLE)

    async def _hinted_within(self, seconds: float) -> bool:
        if seconds == 0:
            return False
        try:
            async with asyncio.timeout(seconds):
                return await self._hinted.wait()
        except TimeoutError:
            return False
