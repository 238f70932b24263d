"""Detects from the lease thread that the event loop is blocked, and logs by which job.

While a handler blocks the event loop, no other job, cancellation or new work is processed.
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
_POLL_INTERVAL: Final = 0.05
# A block starts up to one interval before its ping, and the ping is checked one interval later. So
# every block of one second is reported.
REPORT_AFTER: Final = 0.95 - 2 * PING_INTERVAL
# How long a block stays in the worker's heartbeats, in seconds.
REPORTED_FOR: Final = 600.0
_MAX_JOBS_NAMED: Final = 3
_LIBRARY_PATHS: Final = tuple(
    sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
)

# Code that an event loop runs has frames of these files outside of it. uvloop shows only the
# frame of the runner.
_LOOP_FILES: Final = (
    asyncio.events.__file__,
    asyncio.base_events.__file__,
    asyncio.runners.__file__,
)
_PACKAGE_PATH: Final = str(Path(__file__).parents[1])


@dataclass(frozen=True, slots=True)
class _Block:
    """The job that blocks the loop, if it is known, and the line of code."""

    job: JobAddress | None
    by: str
    where: str


class LoopWatch:
    """Created on the event loop that it watches. The lease thread calls `run`."""

    def __init__(self, workers: Sequence[QueueWorker], telemetry: Telemetry) -> None:
        self._workers = workers
        self._telemetry = telemetry
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._answered = True
        self._longest = 0.0
        self._longest_at = 0.0

    def longest_block(self) -> timedelta | None:
        """Returns the longest block of the last ten minutes, including one that continues."""
        if not self._longest or time.monotonic() - self._longest_at > REPORTED_FOR:
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
            await asyncio.sleep(_POLL_INTERVAL)
            now = time.monotonic()
            # If this thread was late too, the whole process was suspended, not blocked by a job.
            watched, before = watched + min(now - before, 2 * _POLL_INTERVAL), now
            if watched < REPORT_AFTER or self._answered:
                continue
            self._remember(now - begun)
            if found is None:
                found = self._describe_block()
                self._report(found, now - begun)
        if found is not None:
            length = time.monotonic() - begun
            self._remember(length)
            self._telemetry.record_block(found.job, length)
            log.warning(
                "the event loop was blocked for %.1f s by %s. Make the handler a plain def, or use "
                "asyncio.to_thread for the call",
                length,
                found.by,
            )

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
        if length >= self._longest or now - self._longest_at > REPORTED_FOR:
            self._longest, self._longest_at = length, now

    def _describe_block(self) -> _Block:
        job, by = self._blocking_job()
        return _Block(job, by, _location(self._frame()))

    def _blocking_job(self) -> tuple[JobAddress | None, str]:
        """Returns the job whose handler is the loop's current task, and a description.

        If no handler is the current task, the description has all running jobs.
        """
        task = asyncio.current_task(self._loop)
        running = [
            (each, worker) for worker in self._workers for each in list(worker.running.values())
        ]
        for each, worker in running:
            if task is not None and each.is_handled_by(task):
                job = each.attempt_context.job
                return job, f"job {job.job_id} of {job.job_type} (handler {worker.handler.name})"
        if not running:
            return None, "code outside of handlers (no job is running)"
        names = ", ".join(each.attempt_context.job.job_id for each, _ in running[:_MAX_JOBS_NAMED])
        more = (
            f" and {len(running) - _MAX_JOBS_NAMED} more" if len(running) > _MAX_JOBS_NAMED else ""
        )
        return None, f"code that belongs to no known handler (running jobs: {names}{more})"

    def _frame(self) -> FrameType | None:
        return sys._current_frames().get(self._thread)


def _location(frame: FrameType | None) -> str:
    """Returns the innermost line that is not in the standard library or an installed package."""
    innermost = frame
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARY_PATHS):
        frame = frame.f_back
    shown = frame or innermost
    if shown is None:
        return "an unknown line"
    return f"{shown.f_code.co_filename}:{shown.f_lineno} in {shown.f_code.co_name}"


def _stack(frame: FrameType | None) -> str:
    """Formats the stack from the handler inwards, without the frames that called the handler."""
    frames = traceback.extract_stack(frame)
    by_loop = [i for i, each in enumerate(frames, 1) if each.filename in _LOOP_FILES]
    inside = frames[max(by_loop, default=0) :]
    shown = list(dropwhile(lambda each: each.filename.startswith(_PACKAGE_PATH), inside)) or inside
    return "".join(traceback.format_list(shown)).rstrip()
