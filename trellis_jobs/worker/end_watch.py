"""Whether a job has ended, after a hint that it may have (design D22).

Anybody may end a job: an operator cancels it, or another worker takes it over. The hint is a core
message, which may be lost, early or wrong. Only the log decides.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.errors import JobsError
from trellis_jobs.model.bounded_dict import BoundedDict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

log = logging.getLogger(__name__)

# Seconds before each check. A hint may arrive before the event it announces is in the log.
_CHECK_DELAYS: Final = (0.0, 0.005, 0.02, 0.05, 0.1, 0.3)
_RETRY_DELAY: Final = 0.5
# A hint is needed from the delivery of its job until the worker watches that job: milliseconds.
_MAX_HINTS: Final = 1_000


class RecentEndHints:
    """The latest hints for one queue, by job id.

    A hint may arrive while its job is being claimed, or moves from its key to its handler, so that
    no EndWatch exists yet. Code that starts to watch a job looks here first.
    """

    def __init__(self) -> None:
        self._jobs: BoundedDict[str, None] = BoundedDict(_MAX_HINTS)

    def add(self, job_id: str) -> None:
        self._jobs[job_id] = None

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._jobs


class EndWatch:
    """Checks one job after each hint.

    `check` reads the log. It returns True when no further check is needed.
    """

    def __init__(
        self,
        check: Callable[[], Awaitable[bool]],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._check = check
        self._spawn = spawn
        self._hinted = asyncio.Event()
        self._is_running = False

    def hint(self) -> None:
        """Starts the checks. If they are under way, they start over without a delay."""
        self._hinted.set()
        if not self._is_running:
            self._is_running = True
            self._spawn(self._run_checks())

    async def _run_checks(self) -> None:
        try:
            while self._hinted.is_set():
                self._hinted.clear()
                for delay in _CHECK_DELAYS:
                    if await self._hinted_within(delay):
                        break
                    if await self._check_with_retry():
                        return
        finally:
            self._is_running = False

    async def _check_with_retry(self) -> bool:
        """Keeps the hint while the log cannot be read."""
        while True:
            try:
                return await self._check()
            except JobsError as error:
                log.warning(
                    "cannot read whether a running job has ended, retrying in %g s: %s",
                    _RETRY_DELAY,
                    error,
                    extra={"error": str(error)},
                )
                await asyncio.sleep(_RETRY_DELAY)

    async def _hinted_within(self, seconds: float) -> bool:
        if seconds == 0:
            return False
        try:
            async with asyncio.timeout(seconds):
                return await self._hinted.wait()
        except TimeoutError:
            return False
