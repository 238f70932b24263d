"""Request and reply over core NATS: questions to, and answers of, a service."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from trellis_jobs.errors import NotConfirmed, PayloadTooLarge, ServiceMissing
from trellis_jobs.jetstream.connection import ConnectionLost, NoResponders

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from nats.aio.subscription import Subscription

    from trellis_jobs.jetstream.connection import Connection
    from trellis_jobs.jetstream.messages import Message

log = logging.getLogger(__name__)

_AT_ONCE: Final = 64
_LINGER: Final = 0.1


@dataclass(frozen=True, slots=True)
class Request:
    subject: str
    data: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reply:
    data: bytes
    headers: dict[str, str] = field(default_factory=dict)


class Desk:
    """Answers requests on one family of subjects, some at once; who asks too much waits."""

    def __init__(
        self, connection: Connection, answer: Callable[[Request], Awaitable[Reply]]
    ) -> None:
        self._connection = connection
        self._answer = answer
        self._free = asyncio.Semaphore(_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._subscription: Subscription | None = None

    async def open(self, subject: str, *, group: str) -> None:
        """Of all desks with the same group one answers each request."""
        self._subscription = await self._connection.subscribe(subject, self._receive, group=group)
        await self._connection.flush()

    async def close(self) -> None:
        """No new requests; those under way are answered first."""
        if self._subscription is not None:
            await self._connection.drain(self._subscription, linger=_LINGER)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)

    def _receive(self, message: Message) -> None:
        if message.reply:
            task = asyncio.get_running_loop().create_task(self._handle(message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _handle(self, message: Message) -> None:
        async with self._free:
            reply = await self._answer(
                Request(message.subject, message.data, message.headers or {})
            )
        try:
            await self._connection.publish(message.reply, reply.data, headers=reply.headers or None)
        except (ConnectionLost, PayloadTooLarge) as error:
            log.warning(
                "an answer was not sent", extra={"subject": message.subject, "error": str(error)}
            )


async def call(
    connection: Connection,
    subject: str,
    data: bytes,
    *,
    headers: dict[str, str] | None = None,
    timeout: float = 10.0,
) -> Reply:
    """Ask once: a request that changes something must not be repeated by us."""
    try:
        message = await connection.ask(subject, data, headers=headers, timeout=timeout)
    except NoResponders:
        raise ServiceMissing(subject) from None
    except ConnectionLost as error:
        raise NotConfirmed(f"the request {subject} ({error})", timeout) from error
    return Reply(message.data, dict(message.headers or {}))
