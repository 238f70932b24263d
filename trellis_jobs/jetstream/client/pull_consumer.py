"""Pull requests to a consumer, and the rule by which a pull ends.

The server ends a pull with a status message, which has no reply subject. The statuses are the same
on 2.10 to 2.15 (`tests.log.test_pull_consumer.py`):

    404, 408                            nothing more for now                   End.NOTHING_MORE
    409 Batch Completed, … MaxBytes     a bound of the pull is reached         End.FULL
    409 Consumer Deleted, Leadership Change, Server Shutdown, …; 503; 400      PullBroken
    nothing, for longer than a pull lasts; a new connection; a gap             PullBroken

Only the first two leave the consumer intact. A broken pull says nothing about what the stream
holds: the reader must resume from its position, and never take the break for the end.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import ConnectionLost
from trellis_jobs.jetstream.client.delivery_info import DeliveryInfo, read_reply

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from datetime import datetime, timedelta

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.message import Message

PULL_SECONDS: Final = 5.0
_PULL_GRACE_SECONDS: Final = 1.0
_BATCH_SIZE: Final = 500
_MAX_DIGITS: Final = 9  # of a number in a header, which may be forged
_NOTHING_MORE_STATUSES: Final = frozenset({"404", "408"})
# Status 409 covers many ways to end; only the text tells these two from the others.
_FULL_DESCRIPTIONS: Final = ("Batch Completed", "Message Size Exceeds MaxBytes")

Delivered: TypeAlias = "tuple[Message, DeliveryInfo]"


class PullEnd(Enum):
    """How a pull ended that left its consumer intact."""

    NOTHING_MORE = auto()
    FULL = auto()


class PullBroken(ConnectionLost):
    """The consumer is gone or may be gone, or deliveries were lost."""


def read_end(headers: Mapping[str, str]) -> PullEnd:
    """Raises PullBroken unless the consumer is intact."""
    status, description = (
        headers.get("Status"),
        headers.get("Description", "").partition("\n")[0].strip(),
    )
    if status in _NOTHING_MORE_STATUSES:
        return PullEnd.NOTHING_MORE
    if status == "409" and description.startswith(_FULL_DESCRIPTIONS):
        return PullEnd.FULL
    raise PullBroken(f"a pull ended with {status} {description}".strip())


def read_undelivered(headers: Mapping[str, str]) -> int | None:
    """Returns how many requested deliveries will not come, or None if the server does not say."""
    pending = headers.get("Nats-Pending-Messages", "")
    return int(pending[:_MAX_DIGITS]) if pending.isdecimal() else None


class PullConsumer:
    """Deliveries of one consumer; `outstanding` is how many requested ones may still come.

    `pending` is how many messages the consumer had to deliver when it was created. `exclusive`: no
    other client pulls from it, so the consumer sequences must be consecutive.
    """

    def __init__(
        self, connection: Connection, stream: str, consumer: str, *, pending: int, exclusive: bool
    ) -> None:
        self.pending = pending
        self.outstanding = 0
        self.inbox = connection.new_inbox()
        self._connection = connection
        self._next = connection.api(f"CONSUMER.MSG.NEXT.{stream}.{consumer}")
        self._exclusive = exclusive
        self._last_delivery = 0
        self._buffer: deque[Message | None] = deque()
        self._has_arrived = asyncio.Event()
        self._broken: PullBroken | None = None

    def receive(self, message: Message | None) -> None:
        self._buffer.append(message)
        self._has_arrived.set()

    def reconnected(self) -> None:
        """Break the pull: it does not survive a reconnect, and the consumer may be gone too."""
        self.receive(None)

    async def drain(self, limit: int | None = None) -> AsyncIterator[Delivered]:
        """Yields the messages that were pending at first, or fewer when some left the stream."""
        remaining = self.pending if limit is None else min(limit, self.pending)
        while remaining > 0:
            if self.outstanding == 0:
                await self.request(min(remaining, _BATCH_SIZE), wait=False)
            received = await self.next()
            if received is PullEnd.NOTHING_MORE:
                return
            if not isinstance(received, PullEnd):
                remaining -= 1
                yield received

    async def stream(self, *, batch_size: int) -> AsyncIterator[Delivered]:
        """Yields deliveries without end."""
        while True:
            if self.outstanding == 0:
                await self.request(batch_size, wait=True)
            received = await self.next()
            if not isinstance(received, PullEnd):
                yield received

    async def request(
        self,
        count: int,
        *,
        wait: bool,
        max_bytes: int | None = None,
        seconds: float = PULL_SECONDS,
    ) -> None:
        """Request `count` deliveries; with `wait` the server waits for messages to come.

        `seconds` is for how long it waits, at most PULL_SECONDS.
        """
        body: dict[str, Any] = {"batch": count}
        body |= {"expires": int(seconds * 1e9)} if wait else {"no_wait": True}
        if max_bytes is not None:
            body["max_bytes"] = max_bytes
        self.outstanding += count
        await self._connection.publish(self._next, orjson.dumps(body), reply=self.inbox)

    async def next(self) -> Delivered | PullEnd:
        """Returns the next delivery, or how a pull ended; raises PullBroken."""
        if self._broken is not None:
            raise self._broken
        if not self._buffer:
            await self._wait()
        return self._read(self._buffer.popleft())

    def next_buffered(self) -> Delivered | PullEnd | None:
        """Returns a delivery that has arrived already, if any; `next` raises a break later."""
        if not self._buffer or self._broken is not None:
            return None
        try:
            return self._read(self._buffer.popleft())
        except PullBroken as broken:
            self._broken = broken
            return None

    async def _wait(self) -> None:
        self._has_arrived.clear()
        try:
            async with asyncio.timeout(PULL_SECONDS + _PULL_GRACE_SECONDS):
                await self._has_arrived.wait()
        except TimeoutError:
            raise PullBroken("a pull did not end in time") from None

    def _read(self, message: Message | None) -> Delivered | PullEnd:
        if message is None:
            raise PullBroken("the client reconnected")
        # Only status messages of the server have no reply; headers may have been forged.
        info = read_reply(message.reply)
        if info is None:
            return self._read_end(message.headers or {})
        if self._exclusive and info.consumer_sequence != self._last_delivery + 1:
            raise PullBroken(
                f"deliveries {self._last_delivery + 1} to {info.consumer_sequence} are lost"
            )
        self._last_delivery = info.consumer_sequence
        self.outstanding -= 1
        return message, info

    def _read_end(self, headers: Mapping[str, str]) -> PullEnd:
        end, undelivered = read_end(headers), read_undelivered(headers)
        self.outstanding = 0 if undelivered is None else max(0, self.outstanding - undelivered)
        return end


@asynccontextmanager
async def open_pull_consumer(
    connection: Connection,
    stream: str,
    consumer: str,
    *,
    pending: int = 0,
    exclusive: bool = False,
    drains: bool = False,
) -> AsyncIterator[PullConsumer]:
    """Pull from an existing consumer. `drains`: at the end, deliveries in flight are received."""
    puller = PullConsumer(connection, stream, consumer, pending=pending, exclusive=exclusive)
    subscription = await connection.subscribe(puller.inbox, puller.receive)
    forget = connection.on_reconnect(puller.reconnected)
    try:
        yield puller
    finally:
        forget()
        await (connection.drain if drains else connection.unsubscribe)(subscription)


@dataclass(frozen=True, slots=True, kw_only=True)
class EphemeralConsumer:
    """A consumer for one read, from a sequence or a time on, of all subjects or of one filter.

    The server removes it when no client has pulled for `idle_timeout`. `delete_after_use`: the
    client deletes it at the end; without that permission the server would log each violation.
    """

    stream: str
    name_prefix: str
    start_sequence: int = 1
    start_time: datetime | None = None
    subject: str | None = None
    idle_timeout: timedelta
    delete_after_use: bool

    def config(self, name: str) -> dict[str, Any]:
        wanted: dict[str, Any] = {
            "name": name,
            "ack_policy": "none",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": int(self.idle_timeout.total_seconds() * 1e9),
            **self._start(),
        }
        if self.subject is not None:
            wanted["filter_subject"] = self.subject
        return wanted

    def _start(self) -> dict[str, Any]:
        if self.start_sequence > 1:
            return {"deliver_policy": "by_start_sequence", "opt_start_seq": self.start_sequence}
        if self.start_time is not None:
            return {
                "deliver_policy": "by_start_time",
                "opt_start_time": self.start_time.isoformat(),
            }
        return {"deliver_policy": "all"}


@asynccontextmanager
async def open_ephemeral_consumer(
    connection: Connection, wanted: EphemeralConsumer
) -> AsyncIterator[PullConsumer]:
    """Create a consumer and pull from it; raises StreamMissing without the stream."""
    name = f"{wanted.name_prefix}-{secrets.token_hex(8)}"
    pending = await _create(connection, name, wanted)
    try:
        async with open_pull_consumer(
            connection, wanted.stream, name, pending=pending, exclusive=True
        ) as consumer:
            yield consumer
    finally:
        if wanted.delete_after_use:
            # No reply is needed: if this is lost, the server removes the idle consumer.
            connection.publish_nowait(
                connection.api(f"CONSUMER.DELETE.{wanted.stream}.{name}"), b""
            )


async def _create(connection: Connection, name: str, wanted: EphemeralConsumer) -> int:
    """Returns how many messages the new consumer has to deliver.

    The filter is part of the request's subject, so that permissions can limit a service to its
    own jobs.
    """
    call = ".".join(filter(None, ("CONSUMER.CREATE", wanted.stream, name, wanted.subject)))
    body = {"stream_name": wanted.stream, "action": "create", "config": wanted.config(name)}
    consumer = await api.request(connection, call, body)
    return int(consumer.get("num_pending", 0))
