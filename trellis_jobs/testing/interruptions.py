"""When a job is cancelled under its handler, on a test's word."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from trellis_jobs.worker.active_job import Noted
from trellis_jobs.worker.running_job import RunningJob, StopReason

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from trellis_jobs.producer.job_ref import JobRef
    from trellis_jobs.testing.recording_job import RecordedCalls


class _NotedWhen(Noted):
    """Awaited, it lasts until something is done."""

    __slots__ = ("_done",)

    def __init__(self, done: asyncio.Task[None]) -> None:
        self._done = done

    def __await__(self) -> Generator[Any, None, None]:
        return self._done.__await__()


_NOTED = Noted()


class Interruptions:
    """`when` is asked after each word of the handler, until it says True."""

    def __init__(self, said: RecordedCalls, when: Callable[[RecordedCalls], bool] | None) -> None:
        self._said = said
        self._when = when
        self._begun: tuple[JobRef[Any], Mapping[str, RunningJob]] | None = None

    def begin(self, ref: JobRef[Any], running: Mapping[str, RunningJob]) -> None:
        self._begun = ref, running
        self._loop = asyncio.get_running_loop()

    def heard(self) -> Noted:
        """The job is cancelled before the handler goes on: in a thread, or where it awaits this."""
        if self._when is None or not self._when(self._said):
            return _NOTED
        self._when = None
        if _is_on(self._loop):
            return _NotedWhen(self._loop.create_task(self.cancel()))
        asyncio.run_coroutine_threadsafe(self.cancel(), self._loop).result()
        return _NOTED

    async def cancel(self, reason: str | None = None) -> None:
        if self._begun is None:
            raise RuntimeError("there is no job to cancel before run()")
        ref, running = self._begun
        await ref.cancel(reason)
        if ref.id in running:
            running[ref.id].stop(StopReason.ENDED)


def _is_on(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
