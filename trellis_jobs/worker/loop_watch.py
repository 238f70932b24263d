"""Notice from the lease thread that the event loop is blocked, and say by which job.

An event loop that is blocked runs nothing else: no other job, no cancellation, no new work.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import sysconfig
import threading
import time
import traceback
from dataclasses import dataclass
from datetime import timedelta
from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.telemetry import Telemetry
    from trellis_jobs.worker.queue_worker import QueueWorker

log = logging.getLogger(__name__)

PING_INTERVAL: Final = 0.25
_LOOK_INTERVAL: Final = 0.05
# A block begins up to one interval before its ping, which is looked at one interval later: what
# blocks for a second is always found.
REPORT_AFTER: Final = 0.95 - 2 * PING_INTERVAL
# For how long a block is part of the worker's heartbeats.
REMEMBERED: Final = 600.0
_JOBS_NAMED: Final = 3
_NOT_THE_USERS: Final = tuple(
    sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
)

# Their frames are outside of everything that a loop runs; uvloop has none but the runner's.
_RUN_LOOPS: Final = (
    asyncio.events.__file__,
    asyncio.base_events.__file__,
    asyncio.runners.__file__,
)
_OUR_OWN: Final = str(Path(__file__).parents[1])


@dataclass(frozen=True, slots=True)
class _Block:
    """What blocks the loop: the job, if it is known, and where it is in the code."""

    job: JobAddress | None
    by: str
    where: str


class LoopWatch:
    """Made on the event loop that it watches; `run` is for the lease thread."""

    def __init__(self, workers: Sequence[QueueWorker], telemetry: Telemetry) -> None:
        self._workers = workers
        self._telemetry = telemetry
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._answered = True
        self._longest = 0.0
        self._longest_at = 0.0

    def longest_block(self) -> timedelta | None:
        """The longest block of the last ten minutes, one that goes on included."""
        if not self._longest or time.monotonic() - self._longest_at > REMEMBERED:
            return None
        return timedelta(seconds=self._longest)

    async def run(self) -> None:
        while not self._loop.is_closed():
            begun = self._ping()
            await asyncio.sleep(PING_INTERVAL)
            if not self._answered:
                await self._until_answered(begun)

    def _ping(self) -> float:
        self._answered = False
        try:
            self._loop.call_soon_threadsafe(self._answer)
        except RuntimeError:  # the loop was closed just now
            self._answered = True
        return time.monotonic()

    def _answer(self) -> None:
        self._answered = True

    async def _until_answered(self, begun: float) -> None:
        found: _Block | None = None
        watched, before = 0.0, time.monotonic()
        while not self._answered and not self._loop.is_closed():
            await asyncio.sleep(_LOOK_INTERVAL)
            now = time.monotonic()
            # Where this thread was late too, the whole process stood still: no job is to blame.
            watched, before = watched + min(now - before, 2 * _LOOK_INTERVAL), now
            if watched < REPORT_AFTER or self._answered:
                continue
            self._remember(now - begun)
            if found is None:
                found = self._find()
                self._report(found, now - begun)
        if found is not None:
            length = time.monotonic() - begun
            self._remember(length)
            self._telemetry.loop_blocked(found.job, length)
            log.warning("the event loop was blocked for %.1f s by %s", length, found.by)

    def _report(self, found: _Block, length: float) -> None:
        log.warning(
            "the event loop has been blocked for %.1f s by %s, at %s\n%s",
            length,
            found.by,
            found.where,
            _stack(self._frame()),
        )

    def _remember(self, length: float) -> None:
        now = time.monotonic()
        if length >= self._longest or now - self._longest_at > REMEMBERED:
            self._longest, self._longest_at = length, now

    def _find(self) -> _Block:
        job, by = self._who()
        return _Block(job, by, _place(self._frame()))

    def _who(self) -> tuple[JobAddress | None, str]:
        """The job whose handler is the current task of the loop, or all that it may be."""
        task = asyncio.current_task(self._loop)
        running = [
            (each, worker) for worker in self._workers for each in list(worker.running.values())
        ]
        for each, worker in running:
            if task is not None and each.is_handled_by(task):
                job = each.terms.job
                return job, f"job {job.job_id} of {job.job_type} (handler {worker.handler.name})"
        if not running:
            return None, "code that is not a handler: no job runs"
        names = ", ".join(each.terms.job.job_id for each, _ in running[:_JOBS_NAMED])
        more = f" and {len(running) - _JOBS_NAMED} more" if len(running) > _JOBS_NAMED else ""
        return None, f"code that is not known to be a handler's (jobs that run: {names}{more})"

    def _frame(self) -> FrameType | None:
        return sys._current_frames().get(self._thread)


def _place(frame: FrameType | None) -> str:
    """The innermost line that is neither Python's nor an installed package's."""
    innermost = frame
    while frame is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        frame = frame.f_back
    shown = frame or innermost
    if shown is None:
        return "an unknown place"
    return f"{shown.f_code.co_filename}:{shown.f_lineno} in {shown.f_code.co_name}"


def _stack(frame: FrameType | None) -> str:
    """From the handler on, the innermost call last; not how it came to be called."""
    frames = traceback.extract_stack(frame)
    by_loop = [i for i, each in enumerate(frames, 1) if each.filename in _RUN_LOOPS]
    inside = frames[max(by_loop, default=0) :]
    shown = list(dropwhile(lambda each: each.filename.startswith(_OUR_OWN), inside)) or inside
    return "".join(traceback.format_list(shown)).rstrip()
