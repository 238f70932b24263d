"""Server-sent events, and the limits that all streams of a console share.

The number of streams is bounded, in all and per user. A client that does not read loses its stream,
and every stream ends after a while: browsers connect again and continue where they were.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from starlette.responses import PlainTextResponse, Response

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.requests import Request
    from starlette.types import Message, Receive, Scope, Send

    from jobs_admin.console.live import Subscriber

log = logging.getLogger(__name__)

MAX_STREAMS: Final = 200
MAX_STREAMS_PER_USER: Final = 20
KEEP_ALIVE: Final = ": still here\n\n"
_KEEP_ALIVE_INTERVAL: Final = 15.0
_SEND_TIMEOUT: Final = 10.0
# After this the browser connects again, so that a user who was removed reads no further.
_LIFETIME: Final = 900.0
_RETRY_AT_ONCE: Final = "retry: 1000\n\n"
_TOO_MANY: Final = "{}. This page does not update by itself: reload it.\n"


class EventStreams:
    """`max_per_user` is None where users do not sign in, as they all have one name there.

    `send_timeout` is how many seconds a client has to take an event.
    """

    def __init__(
        self,
        *,
        max_streams: int = MAX_STREAMS,
        max_per_user: int | None = MAX_STREAMS_PER_USER,
        send_timeout: float = _SEND_TIMEOUT,
        lifetime: float = _LIFETIME,
    ) -> None:
        self.send_timeout = send_timeout
        self.lifetime = lifetime
        self.by_user: Counter[str] = Counter()
        self._max_streams = max_streams
        self._max_per_user = max_streams if max_per_user is None else max_per_user

    @property
    def open_streams(self) -> int:
        return self.by_user.total()

    def open(self, user: str, messages: AsyncGenerator[str, None]) -> Response:
        """A reply that sends these messages, or says that too many streams are open.

        The time limits need a message now and then: send KEEP_ALIVE if there is nothing else.
        """
        if self.open_streams >= self._max_streams:
            return _refusal("Too many pages are open")
        if self.by_user[user] >= self._max_per_user:
            return _refusal(f"{user} has {self._max_per_user} pages open, which is the limit")
        return _EventStream(self, user, messages)


def streams_of(request: Request) -> EventStreams:
    """The streams of the console that got the request."""
    streams: EventStreams = request.app.state.event_streams
    return streams


async def next_hint(subscriber: Subscriber) -> int | None:
    """Returns None if there is no hint for some seconds: time for KEEP_ALIVE."""
    try:
        async with asyncio.timeout(_KEEP_ALIVE_INTERVAL):
            return await subscriber.next()
    except TimeoutError:
        return None


def _refusal(who: str) -> Response:
    return PlainTextResponse(_TOO_MANY.format(who), 503, {"retry-after": "30"})


class _EventStream(Response):
    """If the body does not end, the server closes the connection."""

    media_type = "text/event-stream"

    def __init__(
        self, streams: EventStreams, user: str, messages: AsyncGenerator[str, None]
    ) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._streams = streams
        self._user = user
        self._messages = messages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Before anything is awaited: otherwise requests at the same moment would pass the limits.
        self._streams.by_user[self._user] += 1
        try:
            await self._stream(receive, send)
        finally:
            self._streams.by_user[self._user] -= 1

    async def _stream(self, receive: Receive, send: Send) -> None:
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
        if not writing.cancelled():
            writing.result()

    async def _write(self, send: Send) -> None:
        """Write until the client is gone, does not read any more, or has read for long enough."""
        now = asyncio.get_running_loop().time
        end = now() + self._streams.lifetime
        try:
            await self._send(send, _RETRY_AT_ONCE)
            async with aclosing(self._messages) as messages:
                async for text in messages:
                    await self._send(send, text)
                    if now() >= end:
                        break
            await self._send(send, "", more=False)
        except TimeoutError:
            log.info("an open page of %s does not read: its connection is closed", self._user)

    async def _send(self, send: Send, text: str, *, more: bool = True) -> None:
        async with asyncio.timeout(self._streams.send_timeout):
            await send(_body(text, more=more))


def _body(text: str, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": text.encode(), "more_body": more}


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
