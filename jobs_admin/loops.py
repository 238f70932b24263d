"""The daemon's background loops by name: each restarts after an error and reports its state."""

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

FIRST_RETRY_DELAY: Final = 0.5
MAX_RETRY_DELAY: Final = 30.0
_STUCK_AFTER: Final = timedelta(minutes=10)
# A loop that has run for this long after its last error counts as recovered.
_RECOVERED_AFTER: Final = timedelta(seconds=10)


@dataclass(slots=True)
class Loop:
    """The state of one loop. `last_success` and `progressed_at` are set by loops that sweep.

    A sweep that has made no progress for ten minutes counts as failing: what it waits for may
    never happen.
    """

    name: str
    last_success: datetime | None = None
    last_error: str | None = None
    last_failure: datetime | None = None
    failures: int = 0
    is_down: bool = False
    progressed_at: datetime | None = None

    def state(self, now: datetime) -> LoopState:
        is_stuck = self.progressed_at is not None and now - self.progressed_at > _STUCK_AFTER
        if self.is_down or is_stuck:
            return LoopState.FAILING
        if self.last_failure is not None and now - self.last_failure < _RECOVERED_AFTER:
            return LoopState.RECOVERING
        return LoopState.RUNNING


class LoopEnded(AdminError):
    def __init__(self, name: str) -> None:
        super().__init__(f"{name} ended, but it should run until the daemon stops")


def retry_delay(ran_for: float, last: float) -> float:
    """Double the last delay, or start over if the loop ran for a while; all in seconds."""
    if last == 0 or ran_for > MAX_RETRY_DELAY:
        return FIRST_RETRY_DELAY
    return min(2 * last, MAX_RETRY_DELAY)


@dataclass(slots=True)
class Loops:
    """`until_ready`: a sweep starts only after this returns."""

    now: Callable[[], datetime]
    until_ready: Callable[[], Awaitable[None]] | None = None
    all: dict[str, Loop] = field(default_factory=dict)

    async def keep_running(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work`, which should not return, and restart it after a delay when it ends."""
        loop, delay = self._new(name), 0.0
        while True:
            began = asyncio.get_running_loop().time()
            loop.is_down = False
            try:
                await work()
                raise LoopEnded(name)
            except Exception as error:
                self._failed(loop, error)
            delay = retry_delay(asyncio.get_running_loop().time() - began, delay)
            await asyncio.sleep(delay)

    async def repeat(
        self, name: str, every: timedelta, work: Callable[[], Awaitable[object]]
    ) -> None:
        """Run `work` at an interval; after an error, sooner if the interval is long."""
        loop, delay = self._new(name), 0.0
        while True:
            if self.until_ready is not None:
                await self.until_ready()
            loop.progressed_at = self.now()
            try:
                await work()
            except Exception as error:
                self._failed(loop, error)
                delay = retry_delay(0, delay)
                pause = min(delay, every.total_seconds())
            else:
                loop.last_success, loop.is_down = self.now(), False
                pause, delay = every.total_seconds(), 0.0
            loop.progressed_at = None
            await asyncio.sleep(pause)

    def report_progress(self, name: str) -> None:
        """Record that the current sweep of this loop has made progress."""
        self.all[name].progressed_at = self.now()

    def _new(self, name: str) -> Loop:
        loop = self.all[name] = Loop(name)
        return loop

    def _failed(self, loop: Loop, error: Exception) -> None:
        loop.failures += 1
        loop.is_down = True
        loop.last_failure = self.now()
        loop.last_error = f"{type(error).__name__}: {error}"
        # Problems with the server pass; anything else is a bug that a person must fix.
        is_expected = isinstance(error, JobsError | ConnectionLost | NoResponders)
        log.log(
            logging.WARNING if is_expected else logging.ERROR,
            "the %s loop failed (%s times in a row) and will be restarted: %s",
            loop.name,
            loop.failures,
            loop.last_error,
            extra={"loop": loop.name, "failures": loop.failures, "error": loop.last_error},
            exc_info=None if is_expected else error,
        )
