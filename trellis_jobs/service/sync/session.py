"""One connection of a service on an event loop in a background thread."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import CancelledError, Future
from contextlib import AsyncExitStack
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, TypeVar

from trellis_jobs.errors import NotConnected

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractAsyncContextManager

    from trellis_jobs.service.runtime import Runtime

T = TypeVar("T")

log = logging.getLogger(__name__)

CLOSE_TIMEOUT: Final = 5.0


class Session:
    """Connects at the first use. The thread is a daemon: a program may end without closing it."""

    def __init__(
        self, service: str, connect: Callable[[], AbstractAsyncContextManager[Runtime]]
    ) -> None:
        self._service = service
        self._connect = connect
        self._connecting: asyncio.Task[Runtime] | None = None
        self._connection = AsyncExitStack()
        self._gate = threading.Lock()
        self._is_closed = False
        self._started = threading.Event()
        self._thread = threading.Thread(
            target=self._run_loop, name=f"trellis-jobs-sync-{service}", daemon=True
        )
        self._thread.start()
        self._started.wait()

    def run(self, use: Callable[[Runtime], Coroutine[Any, Any, T]]) -> T:
        """Blocks the calling thread until `use` is done; an exception in it is raised here.

        `use` has the context variables of the caller, so a job belongs to the caller's trace.
        """
        with self._gate:
            if self._is_closed:
                raise NotConnected(self._service)
            future = asyncio.run_coroutine_threadsafe(self._use(use), self._loop)
        return outcome_of(future, self._service)

    def close(self) -> None:
        """Calls in other threads end with NotConfirmed, or NotConnected if they asked for nothing.

        A loop that hangs is left behind.
        """
        with self._gate:
            if self._is_closed:
                return
            # What was scheduled before this still begins; after it nothing may be.
            self._is_closed = True
            self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(CLOSE_TIMEOUT)
        if self._thread.is_alive():
            log.error(
                "the sync client of service %r did not close within %g s",
                self._service,
                CLOSE_TIMEOUT,
            )

    def _run_loop(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        self._started.set()
        await self._closing.wait()
        await self._connection.aclose()

    async def _use(self, use: Callable[[Runtime], Coroutine[Any, Any, T]]) -> T:
        return await use(await self._connected())

    async def _connected(self) -> Runtime:
        """The first call connects, the others wait for it; after a failure the next tries again."""
        if self._connecting is None:
            # An empty context: the connection must not keep alive what belongs to one request.
            connecting = self._connection.enter_async_context(self._connect())
            self._connecting = self._loop.create_task(connecting, context=Context())
        connecting_now = self._connecting
        try:
            # Shielded: a caller that stops waiting does not stop the others' connection.
            return await asyncio.shield(connecting_now)
        except Exception:
            if self._connecting is connecting_now:
                self._connecting = None
            raise


def outcome_of(future: Future[T], service: str) -> T:
    """Block until it is done; Ctrl-C ends the waiting, and with it what was waited for."""
    try:
        return future.result()
    except CancelledError:
        raise NotConnected(service) from None
    finally:
        future.cancel()
