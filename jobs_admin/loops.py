"""The daemon's loops by name: each starts itself again after an error, and says how it fares."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from jobs_admin.api.errors import AdminError
from jobs_admin.api.views.health import LoopState
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client.connection import ConnectionLost, NoResponders

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

log = logging.getLogger(__name__)

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
_LONGEST_REST: Final = timedelta(minutes=10)
# A loop that runs for so long after its last error has recovered from it.
_SETTLED: Final = timedelta(seconds=10)


@dataclass(slots=True)
class Loop:
    """`last_success` and `moved_at` are of loops that work in turns.

    A turn that began long ago, and has got nowhere since, counts as a failure: what it waits for
    may never come.
    """

    name: str
    last_success: datetime | None = None
    last_error: str | None = None
    last_failure: datetime | None = None
    failures: int = 0
    is_down: bool = False
    moved_at: datetime | None = None

    def state(self, now: datetime) -> LoopState:
        is_stuck = self.moved_at is not None and now - self.moved_at > _LONGEST_REST
        if self.is_down or is_stuck:
            return LoopState.FAILING
        if self.last_failure is not None and now - self.last_failure < _SETTLED:
            return LoopState.RECOVERING
        return LoopState.RUNNING


class LoopEnded(AdminError):
    def __init__(self, name: str) -> None:
        super().__init__(f"{name} ended, though it should go on for ever")


def pause_after(ran_for: float, last: float) -> float:
    """Longer each time, unless it ran for a good while in between; all in seconds."""
    if last == 0 or ran_for > LONGEST_PAUSE:
        return FIRST_PAUSE
    return min(2 * last, LONGEST_PAUSE)


@dataclass(slots=True)
class Loops:
    """`until_possible`: turns are begun only when it returns."""

    now: Callable[[], datetime]
    until_possible: Callable[[], Awaitable[None]] | None = None
    all: dict[str, Loop] = field(default_factory=dict)

    async def keep(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work`, which should not end; when it does, or fails, again, a little later."""
        loop, pause = self._new(name), 0.0
        while True:
            began = asyncio.get_running_loop().time()
            loop.is_down = False
            try:
                await work()
                raise LoopEnded(name)
            except Exception as error:
                self._failed(loop, error)
            pause = pause_after(asyncio.get_running_loop().time() - began, pause)
            await asyncio.sleep(pause)

    async def repeat(
        self, name: str, every: timedelta, work: Callable[[], Awaitable[object]]
    ) -> None:
        """Run `work` again and again; after an error sooner than usual, if that is long."""
        loop, pause = self._new(name), 0.0
        while True:
            if self.until_possible is not None:
                await self.until_possible()
            loop.moved_at = self.now()
            try:
                await work()
            except Exception as error:
                self._failed(loop, error)
                pause = pause_after(0, pause)
                rest = min(pause, every.total_seconds())
            else:
                loop.last_success, loop.is_down = self.now(), False
                rest, pause = every.total_seconds(), 0.0
            loop.moved_at = None
            await asyncio.sleep(rest)

    def went_on(self, name: str) -> None:
        """The turn of this loop that is under way has got somewhere."""
        self.all[name].moved_at = self.now()

    def _new(self, name: str) -> Loop:
        loop = self.all[name] = Loop(name)
        return loop

    def _failed(self, loop: Loop, error: Exception) -> None:
        loop.failures += 1
        loop.is_down = True
        loop.last_failure = self.now()
        loop.last_error = f"{type(error).__name__}: {error}"
        # Trouble with the server passes; anything else is a mistake that a person must look at.
        is_expected = isinstance(error, JobsError | ConnectionLost | NoResponders)
        log.log(
            logging.WARNING if is_expected else logging.ERROR,
            "the %s of the admin runtime failed (%s in a row) and is started again: %s",
            loop.name,
            loop.failures,
            loop.last_error,
            extra={"loop": loop.name, "failures": loop.failures, "error": loop.last_error},
            exc_info=None if is_expected else error,
        )
