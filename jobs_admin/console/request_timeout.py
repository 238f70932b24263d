"""Closes connections that send no request.

The number of connections is limited, and uvicorn has no time limit for the first request of one. So
clients that are not signed in could take all connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

    from uvicorn.protocols.http.h11_impl import RequestResponseCycle


class RequestTimeoutProtocol(H11Protocol):
    """`request_timeout` is how many seconds a client has to send the head of its next request."""

    request_timeout: ClassVar[float] = 10.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_request_after(None)

    def on_response_complete(self) -> None:
        answered = self.cycle
        super().on_response_complete()
        # uvicorn closes a connection that is idle now, but not one that sends a part of a request.
        self._expect_request_after(answered)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _expect_request_after(self, answered: RequestResponseCycle | None) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(self.request_timeout, self._close_after, answered)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_after(self, answered: RequestResponseCycle | None) -> None:
        """Do nothing if another request has begun: each request has its own cycle."""
        if self.cycle is answered:
            self.transport.abort()
