"""Request and reply over core NATS: a server that replies to requests, and a call."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from trellis_jobs.errors import JobsError, NotConfirmed, ServiceMissing
from trellis_jobs.jetstream.client.connection import ConnectionLost, NoResponders
from trellis_jobs.model import subjects
from trellis_jobs.wire import headers as h

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.core_client import Subscription
    from trellis_jobs.jetstream.client.message import Message

log = logging.getLogger(__name__)

_MAX_CONCURRENT: Final = 64
# Limits of the pending requests together; one alone may be as large as a message can be.
_MAX_PENDING_REQUESTS: Final = 320
_MAX_PENDING_BYTES: Final = 16 * 1024 * 1024
_MAX_LOGGED_LENGTH: Final = 128


@dataclass(frozen=True, slots=True)
class Request:
    subject: str
    data: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reply:
    data: bytes
    headers: dict[str, str] = field(default_factory=dict)


class RpcServer:
    """Replies to requests on a subject: up to a limit concurrently, others wait, more are refused.

    It replies only to inboxes: it may have permission to publish where the requester has none, and
    the NATS server does not check the requester's permission for a reply subject.
    """

    def __init__(
        self,
        connection: Connection,
        answer: Callable[[Request], Awaitable[Reply]],
        refuse: Callable[[Request], Reply],
    ) -> None:
        """`refuse` makes the reply when too many requests are pending; it must return quickly."""
        self._connection = connection
        self._answer = answer
        self._refuse = refuse
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT)
        self._pending_bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._subscription: Subscription | None = None

    async def open(self, subject: str, *, group: str) -> None:
        """Start serving; each request goes to one of the servers with the same group."""
        self._subscription = await self._connection.subscribe(subject, self._receive, group=group)
        await self._connection.flush()

    async def close(self) -> None:
        """Take no new requests, and finish those in progress."""
        if self._subscription is not None:
            await self._connection.drain(self._subscription)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)

    def _receive(self, message: Message) -> None:
        if not subjects.is_inbox(message.reply):
            if message.reply:
                self._drop(message, "its reply subject is not an inbox")
            return
        request = Request(message.subject, message.data, message.headers or {})
        if self._is_full(request):
            self._send_now(message, self._refuse(request))
            return
        self._pending_bytes += len(request.data)
        task = asyncio.get_running_loop().create_task(self._handle(message.reply, request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _is_full(self, request: Request) -> bool:
        exceeds_bytes = (
            self._pending_bytes > 0 and self._pending_bytes + len(request.data) > _MAX_PENDING_BYTES
        )
        return exceeds_bytes or len(self._tasks) >= _MAX_PENDING_REQUESTS

    async def _handle(self, reply_to: str, request: Request) -> None:
        try:
            async with self._slots:
                reply = await self._answer(request)
            await self._connection.publish(reply_to, reply.data, headers=reply.headers or None)
        except (ConnectionLost, JobsError) as error:
            log.warning(
                "the reply to %s was not sent: %s",
                request.subject,
                error,
                extra={"subject": request.subject, "error": str(error)},
            )
        finally:
            self._pending_bytes -= len(request.data)

    def _send_now(self, message: Message, reply: Reply) -> None:
        """Send without buffering: a requester that reads no replies must not fill the memory."""
        block = h.block(reply.headers) if reply.headers else b""
        try:
            is_sent = self._connection.publish_nowait(message.reply, reply.data, block=block)
        except JobsError as error:
            self._drop(message, str(error))
        else:
            if not is_sent:
                self._drop(message, "the outbound buffer of the connection is full")

    def _drop(self, message: Message, reason: str) -> None:
        log.warning(
            "a request to %s gets no reply: %s",
            message.subject[:_MAX_LOGGED_LENGTH],
            reason,
            extra={
                "subject": message.subject[:_MAX_LOGGED_LENGTH],
                "reply": message.reply[:_MAX_LOGGED_LENGTH],
                "reason": reason,
            },
        )


async def rpc_call(
    connection: Connection,
    subject: str,
    data: bytes,
    *,
    headers: dict[str, str] | None = None,
    timeout: float = 10.0,
) -> Reply:
    """Send one request, and never repeat it: it may change something."""
    try:
        message = await connection.request(subject, data, headers=headers, timeout=timeout)
    except NoResponders:
        raise ServiceMissing(subject) from None
    except ConnectionLost as error:
        raise NotConfirmed(f"the request {subject} ({error})", timeout) from error
    return Reply(message.data, dict(message.headers or {}))
