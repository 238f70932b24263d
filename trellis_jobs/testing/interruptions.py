"""Cancels a job while its handler runs, when a test wants it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from trellis_jobs.worker.active_job import Noted
from trellis_jobs.worker.running_job import RunningJob, StopReason

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from trellis_jobs.producer.job_ref import JobRef
    from trellis_jobs.testing.recording_job import RecordedCalls


class _NotedAfter(Noted):
    """An awaitable that waits for a task."""

    __slots__ = ("_done",)

    def __init__(self, done: asyncio.Task[None]) -> None:
        self._done = done

    def __await__(self) -> Generator[Any, None, None]:
        return self._done.__await__()


_NOTED = Noted()


class Interruptions:
    """Calls `when` after each call of the handler, until it returns True."""

    def __init__(
        self, recorded: RecordedCalls, when: Callable[[RecordedCalls], bool] | None
    ) -> None:
        self._recorded = recorded
        self._when = when
        self._begun: tuple[JobRef[Any], Mapping[str, RunningJob]] | None = None

    def begin(self, ref: JobRef[Any], running: Mapping[str, RunningJob]) -> None:
        self._begun = ref, running
        self._loop = asyncio.get_running_loop()

    def on_call(self) -> Noted:
        """Cancels the job, if it is time, before the handler continues.

        An async handler has to await the result for that.
        """
        if self._when is None or not self._when(self._recorded):
            return _NOTED
        self._when = None
        if _is_on(self._loop):
            return _NotedAfter(self._loop.create_task(self.cancel()))
        asyncio.run_coroutine_threadsafe(self.cancel(), self._loop).result()
        return _NOTED

    async def cancel(self, reason: str | None = None) -> None:
        if self._begun is None:
            raise RuntimeError("cancel() was called before run(): there is no job yet")
        ref, running = self._begun
        await ref.cancel(reason)
        if ref.id in running:
            running[ref.id].stop(StopReason.ENDED)


def _is_on(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
