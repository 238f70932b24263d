"""Starting before the server: retries until the server replies and JetStream is ready."""

from __future__ import annotations

import asyncio
import logging
from math import isnan
from typing import TYPE_CHECKING, Final, TypeVar

from trellis_jobs.errors import DeclarationError, JetStreamNotReady, NotConfirmed, Unreachable
from trellis_jobs.jetstream.client.connection import CONNECT_TIMEOUT, Connection
from trellis_jobs.jetstream.client.server_urls import parse_server_urls

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trellis_jobs.jetstream.client.connect_options import ConnectOptions

log = logging.getLogger(__name__)

T = TypeVar("T")

# Errors that may go away. Refused credentials and a missing stream are not among them.
_NOT_READY: Final = (Unreachable, NotConfirmed, JetStreamNotReady)
_RETRY_DELAY: Final = 0.5
_LOG_INTERVAL: Final = 30.0
_MIN_CONNECT_TIMEOUT: Final = 1.0


def _checked(timeout: object) -> float:
    """Raises DeclarationError: NaN would never be over, and text cannot be added to a time."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or isnan(timeout):
        raise DeclarationError(
            f"connect_timeout must be a number of seconds, or None to wait for ever: {timeout!r}"
        )
    return timeout


class Startup:
    """One start of a process; `timeout` covers all its steps, None waits for ever."""

    def __init__(self, timeout: float | None) -> None:
        self._now = asyncio.get_running_loop().time
        self._deadline = None if timeout is None else self._now() + _checked(timeout)
        self._logged_at = -_LOG_INTERVAL

    async def open(self, options: ConnectOptions, *, name: str) -> Connection:
        parse_server_urls(options.servers)  # raises at once: waiting does not fix a malformed URL

        async def connect() -> Connection:
            return await Connection.open(options, name=name, timeout=self._connect_timeout())

        return await self.until_ready(connect)

    async def until_ready(self, step: Callable[[], Awaitable[T]]) -> T:
        """Repeat a step, which must be safe to repeat; raises its last error after the timeout."""
        while True:
            try:
                return await step()
            except _NOT_READY as error:
                if self._is_expired():
                    raise
                self._log(error)
            await asyncio.sleep(_RETRY_DELAY)

    def _connect_timeout(self) -> float:
        if self._deadline is None:
            return CONNECT_TIMEOUT
        return min(CONNECT_TIMEOUT, max(_MIN_CONNECT_TIMEOUT, self._deadline - self._now()))

    def _is_expired(self) -> bool:
        return self._deadline is not None and self._now() + _RETRY_DELAY >= self._deadline

    def _log(self, error: Exception) -> None:
        if self._now() - self._logged_at >= _LOG_INTERVAL:
            self._logged_at = self._now()
            end = "without a time limit" if self._deadline is None else "until the connect timeout"
            log.warning("not started yet: %s; retrying %s", error, end)
