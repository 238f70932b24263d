"""Shares one session among all threads of a process, and reopens it after a fork or a close."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakSet

from trellis_jobs.errors import CalledInEventLoop
from trellis_jobs.service.sync.session import Session, outcome_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractAsyncContextManager

    from trellis_jobs.service.runtime import Runtime

T = TypeVar("T")


class Bridge:
    """`run` may be called in any thread that has no running event loop.

    `runtime` is that of the service. It replaces the session while the service is inline.
    """

    def __init__(
        self, runtime: Runtime, connect: Callable[[], AbstractAsyncContextManager[Runtime]]
    ) -> None:
        self._runtime = runtime
        self._connect = connect
        self._lock = threading.Lock()
        self._session: Session | None = None
        _BRIDGES.add(self)

    def run(self, use: Callable[[Runtime], Coroutine[Any, Any, T]]) -> T:
        """Runs `use` on the session's event loop and blocks until it is done."""
        _refuse_in_event_loop()
        if self._runtime.is_inline:
            loop = self._runtime.connected.connection.loop
            future = asyncio.run_coroutine_threadsafe(use(self._runtime), loop)
            return outcome_of(future, self.service)
        return self._opened().run(use)

    @property
    def service(self) -> str:
        return self._runtime.service

    def close(self) -> None:
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            session.close()

    def reset_after_fork(self) -> None:
        """Called in a forked child, where the threads of the parent do not exist.

        Keeps the parent's session referenced: closing its connection would disturb the parent.
        """
        self._lock = threading.Lock()
        if self._session is not None:
            _PARENT_SESSIONS.append(self._session)
        self._session = None

    def _opened(self) -> Session:
        with self._lock:
            if self._session is None:
                self._session = Session(self.service, self._connect)
            return self._session


_BRIDGES: Final[WeakSet[Bridge]] = WeakSet()
_PARENT_SESSIONS: Final[list[Session]] = []


def _refuse_in_event_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise CalledInEventLoop(
        "a sync client was called in a running event loop, which it would block. Use "
        "`async with service.connect(url):` and `await`, or call it in asyncio.to_thread()"
    )


def _close_all() -> None:
    for bridge in list(_BRIDGES):
        bridge.close()


def _reset_all_after_fork() -> None:
    for bridge in list(_BRIDGES):
        bridge.reset_after_fork()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all_after_fork)
