"""Requests that were sent and wait for their reply."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from trellis_jobs.jetstream.client.message import Message

SWEEP_INTERVAL: Final = 0.25


class ConnectionLost(Exception):
    """The connection broke or no reply came, so the request may or may not have arrived."""


class NoResponders(Exception):
    """No subscriber on this subject: no such stream, no leader right now, or no JetStream."""


@dataclass(slots=True)
class _PendingRequest:
    """`subjects` are separated by spaces if several messages make up the request.

    `is_reply`: decides which messages in the inbox are the reply; None accepts the first.
    """

    subjects: str
    reply: asyncio.Future[Message]
    deadline: float
    is_reply: Callable[[Message], bool] | None


class PendingRequests:
    """All requests of a connection share one inbox; the token in the subject tells them apart."""

    def __init__(self, inbox: str) -> None:
        self.inbox = inbox
        self._loop = asyncio.get_running_loop()
        self._pending: dict[str, _PendingRequest] = {}
        self._last_token = 0
        self._sweeper: asyncio.TimerHandle | None = None

    def next_token(self) -> str:
        self._last_token += 1
        return str(self._last_token)

    def add(
        self,
        token: str,
        subjects: str,
        timeout: float,
        is_reply: Callable[[Message], bool] | None = None,
    ) -> asyncio.Future[Message]:
        reply: asyncio.Future[Message] = self._loop.create_future()
        deadline = self._loop.time() + timeout
        self._pending[token] = _PendingRequest(subjects, reply, deadline, is_reply)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(SWEEP_INTERVAL, self._sweep)
        return reply

    def receive(self, message: Message) -> None:
        token = message.subject[len(self.inbox) + 1 :].partition(".")[0]
        request = self._pending.get(token)
        if request is None or (request.is_reply and not request.is_reply(message)):
            return
        del self._pending[token]
        if request.reply.done():
            return
        if message.status == "503":
            request.reply.set_exception(NoResponders(request.subjects))
        else:
            request.reply.set_result(message)

    def fail(
        self,
        error_for: Callable[[str], Exception],
        *,
        matches: Callable[[str], bool] = lambda _: True,
    ) -> bool:
        """Fail the requests whose subjects match; returns False when there are none."""
        failed = [request for request in self._pending.values() if matches(request.subjects)]
        for request in failed:
            if not request.reply.done():
                request.reply.set_exception(error_for(request.subjects))
        return bool(failed)

    def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()

    def _sweep(self) -> None:
        now = self._loop.time()
        for token, request in list(self._pending.items()):
            if not request.reply.done() and request.deadline <= now:
                request.reply.set_exception(ConnectionLost(f"no reply from {request.subjects}"))
            if request.reply.done():
                del self._pending[token]
        self._sweeper = (
            self._loop.call_later(SWEEP_INTERVAL, self._sweep) if self._pending else None
        )
