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
    """Connects at the first use. Its daemon thread does not keep the program alive."""

    def __init__(
        self, service: str, connect: Callable[[], AbstractAsyncContextManager[Runtime]]
    ) -> None:
        self._service = service
        self._connect = connect
        self._connecting: asyncio.Task[Runtime] | None = None
        self._connection = AsyncExitStack()
        self._lock = threading.Lock()
        self._is_closed = False
        self._started = threading.Event()
        self._thread = threading.Thread(
            target=self._run_loop, name=f"trellis-jobs-sync-{service}", daemon=True
        )
        self._thread.start()
        self._started.wait()

    def run(self, use: Callable[[Runtime], Coroutine[Any, Any, T]]) -> T:
        """Blocks the calling thread until `use` is done, and raises its exceptions.

        `use` gets the caller's context variables, so that a job belongs to the caller's trace.
        """
        with self._lock:
            if self._is_closed:
                raise NotConnected(self._service)
            future = asyncio.run_coroutine_threadsafe(self._use(use), self._loop)
        return outcome_of(future, self._service)

    def close(self) -> None:
        """Calls in other threads raise NotConfirmed, or NotConnected if they sent nothing.

        Gives up on an event loop that hangs.
        """
        with self._lock:
            if self._is_closed:
                return
            # Calls that were scheduled before this still start. Later calls are refused.
            self._is_closed = True
            self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(CLOSE_TIMEOUT)
        if self._thread.is_alive():
            log.error(
                "the sync client of service %r did not close within %g s; its thread still runs",
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
        """Connects at the first call. Others wait for it. After a failure the next retries."""
        if self._connecting is None:
            # An empty context, so that the connection keeps no values of one request alive.
            connecting = self._connection.enter_async_context(self._connect())
            self._connecting = self._loop.create_task(connecting, context=Context())
        connecting_now = self._connecting
        try:
            # Shielded, so that a caller that stops waiting does not cancel it for the others.
            return await asyncio.shield(connecting_now)
        except Exception:
            if self._connecting is connecting_now:
                self._connecting = None
            raise


def outcome_of(future: Future[T], service: str) -> T:
    """Blocks until the future is done. Ctrl-C cancels it."""
    try:
        return future.result()
    except CancelledError:
        raise NotConnected(service) from None
    finally:
        future.cancel()
