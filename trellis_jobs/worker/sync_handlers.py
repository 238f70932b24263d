"""Runs each sync handler in its own thread, so that it does not block the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from trellis_jobs.worker.active_job import ActiveJob


class RaisedInThread(RuntimeError):
    """Wraps exceptions that have a meaning for asyncio, such as KeyboardInterrupt."""

    def __init__(self, raised: BaseException) -> None:
        super().__init__(f"the handler raised {type(raised).__name__}: {raised}")
        self.raised = raised


AnyHandler = Callable[[ActiveJob[Any]], Any]


def as_async(handler: AnyHandler) -> Callable[[ActiveJob[Any]], Awaitable[Any]]:
    called = handler if inspect.isroutine(handler) else type(handler).__call__
    if inspect.iscoroutinefunction(called):
        return handler

    @functools.wraps(handler)
    async def in_thread(job: ActiveJob[Any]) -> Any:
        return await _run_in_thread(functools.partial(handler, job))

    return in_thread


async def _run_in_thread(call: Callable[[], Any]) -> Any:
    """Uses a daemon thread: a handler that hangs does not keep the process alive."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def report(result: Any, error: BaseException | None) -> None:
        if ended.done():
            return
        if error is not None:
            ended.set_exception(error)
        else:
            ended.set_result(result)

    def run() -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = context.run(call)
        except (StopIteration, KeyboardInterrupt, GeneratorExit) as raised:
            error = RaisedInThread(raised)
        except BaseException as raised:
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(report, result, error)

    threading.Thread(target=run, name="trellis-jobs-handler", daemon=True).start()
    return await ended
