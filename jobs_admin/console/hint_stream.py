"""Open pages are told that they should read again.

Each event has a position of the log as its id, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs_admin.console.event_stream import KEEP_ALIVE, next_hint

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.requests import Request
    from starlette.responses import Response

    from jobs_admin.console.event_stream import EventStreams
    from jobs_admin.console.live import LiveHints


class HintStreams:
    def __init__(self, live: LiveHints, streams: EventStreams) -> None:
        self._live = live
        self._streams = streams

    async def open(self, request: Request) -> Response:
        topics = frozenset(request.query_params.get("topics", "").split())
        after = request.headers.get("last-event-id") or request.query_params.get("after", "")
        position = int(after) if after.isascii() and after.isdigit() else None
        return self._streams.open(request.user.name, self._events(topics, position))

    async def _events(self, topics: frozenset[str], after: int | None) -> AsyncGenerator[str, None]:
        with self._live.subscribed(topics, after) as subscriber:
            while True:
                sequence = await next_hint(subscriber)
                hint = f"id: {sequence}\ndata: {sequence}\n\n"
                yield KEEP_ALIVE if sequence is None else hint
