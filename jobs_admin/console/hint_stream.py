"""Server-sent events: open pages are told that they should read again.

Each event has a position of the log as its id, and nothing else. The number of streams is bounded,
and a client that does not read loses its stream: it connects again and continues where it was.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import PlainTextResponse, Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from starlette.requests import Request
    from starlette.types import Message, Receive, Scope, Send

    from jobs_admin.console.live import LiveHints, Subscriber

log = logging.getLogger(__name__)

MAX_STREAMS: Final = 200
_KEEP_ALIVE: Final = 15.0
_SEND_TIMEOUT: Final = 10.0
# After this the browser connects again, so that a user who was removed sees no more hints.
_LIFETIME: Final = 900.0
_TOO_MANY: Final = "Too many pages are open. This one does not update by itself: reload it.\n"


class HintStreams:
    """`send_timeout` is how many seconds a client has to take an event."""

    def __init__(
        self,
        live: LiveHints,
        *,
        max_streams: int = MAX_STREAMS,
        send_timeout: float = _SEND_TIMEOUT,
    ) -> None:
        self._live = live
        self._max_streams = max_streams
        self._send_timeout = send_timeout
        self.open_streams = 0

    async def open(self, request: Request) -> Response:
        if self.open_streams >= self._max_streams:
            return PlainTextResponse(_TOO_MANY, 503, {"retry-after": "30"})
        topics = frozenset(request.query_params.get("topics", "").split())
        after = request.headers.get("last-event-id") or request.query_params.get("after", "")
        position = int(after) if after.isascii() and after.isdigit() else None
        return _EventStream(partial(self._write, topics, position))

    async def _write(self, topics: frozenset[str], after: int | None, send: Send) -> None:
        """Write until the client is gone, does not read any more, or has read for long enough."""
        self.open_streams += 1
        try:
            with self._live.subscribed(topics, after) as subscriber:
                async for text in _events(subscriber):
                    async with asyncio.timeout(self._send_timeout):
                        await send(_body(text))
            async with asyncio.timeout(self._send_timeout):
                await send(_body("", more=False))
        except TimeoutError:
            log.info("an open page does not read its hints: its connection is closed")
        finally:
            self.open_streams -= 1


async def _events(subscriber: Subscriber) -> AsyncIterator[str]:
    now = asyncio.get_running_loop().time
    end = now() + _LIFETIME
    yield "retry: 1000\n\n"
    while now() < end:
        try:
            async with asyncio.timeout(_KEEP_ALIVE):
                sequence = await subscriber.next()
        except TimeoutError:
            yield ": still here\n\n"
            continue
        yield f"id: {sequence}\ndata: {sequence}\n\n"


class _EventStream(Response):
    """`write` sends the body. If it does not end it, the server closes the connection."""

    media_type = "text/event-stream"

    def __init__(self, write: Callable[[Send], Coroutine[Any, Any, None]]) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._write = write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = self.raw_headers
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        writing = asyncio.create_task(self._write(send))
        leaving = asyncio.create_task(_until_gone(receive))
        try:
            await asyncio.wait({writing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (writing, leaving):
                task.cancel()
            await asyncio.gather(writing, leaving, return_exceptions=True)


def _body(text: str, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": text.encode(), "more_body": more}


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
