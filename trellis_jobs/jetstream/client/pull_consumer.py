"""Pulling from a consumer: how it is asked, and the one rule by which a pull ends.

The server's word about a pull is a message without a reply subject. What it says was the same on
2.10 to 2.15 (`tests/log/test_pulling.py`):

    404, 408                            nothing more for now                   End.NOTHING_MORE
    409 Batch Completed, … MaxBytes     a bound of the pull is reached         End.FULL
    409 Consumer Deleted, Leadership Change, Server Shutdown, …; 503; 400      PullBroken
    nothing, for longer than a pull lasts; a new connection; a gap             PullBroken

Only the first two leave the consumer as it was. A broken pull says nothing about what the stream
holds: whoever reads begins again from what it has, and never takes it for the end.
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

from trellis_jobs.errors import InfrastructureMissing, RequestRefused
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import ConnectionLost
from trellis_jobs.jetstream.client.delivery_info import DeliveryInfo, read_reply

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from datetime import datetime, timedelta

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.message import Message

PULL_SECONDS: Final = 5.0
_SLACK_SECONDS: Final = 1.0
_EXPIRES_NS: Final = int(PULL_SECONDS * 1e9)
_AT_ONCE: Final = 500
_DIGITS: Final = 9  # of a number that somebody else sends
_NOTHING_MORE: Final = frozenset({"404", "408"})
# Status 409 stands for all sorts of ends: these two can be told from the rest by their text only.
_FULL: Final = ("Batch Completed", "Message Size Exceeds MaxBytes")

Delivered: TypeAlias = "tuple[Message, DeliveryInfo]"


class End(Enum):
    """How a pull ended whose consumer is well."""

    NOTHING_MORE = auto()
    FULL = auto()


class PullBroken(ConnectionLost):
    """The consumer is gone, or may be, or deliveries of it were lost on the way."""


def read_end(headers: Mapping[str, str]) -> End:
    """Raises PullBroken unless the consumer is as it was."""
    status, said = headers.get("Status"), headers.get("Description", "").partition("\n")[0].strip()
    if status in _NOTHING_MORE:
        return End.NOTHING_MORE
    if status == "409" and said.startswith(_FULL):
        return End.FULL
    raise PullBroken(f"a pull ended with {status} {said}".strip())


def read_undelivered(headers: Mapping[str, str]) -> int | None:
    """How many deliveries a pull ended without; None: the server does not say."""
    said = headers.get("Nats-Pending-Messages", "")
    return int(said[:_DIGITS]) if said.isdecimal() else None


class PullConsumer:
    """Deliveries of one consumer; `owed` is how many of those asked for may still come.

    `pending` is how many messages the consumer had to deliver when it was made. `alone`: nobody
    else pulls from it, so each delivery must be the one after the last.
    """

    def __init__(
        self, connection: Connection, stream: str, consumer: str, *, pending: int, alone: bool
    ) -> None:
        self.pending = pending
        self.owed = 0
        self.inbox = connection.new_inbox()
        self._connection = connection
        self._next = connection.api(f"CONSUMER.MSG.NEXT.{stream}.{consumer}")
        self._alone = alone
        self._number = 0
        self._arrived: deque[Message | None] = deque()
        self._came = asyncio.Event()
        self._broken: PullBroken | None = None

    def receive(self, message: Message | None) -> None:
        self._arrived.append(message)
        self._came.set()

    def reconnected(self) -> None:
        """A pull does not survive that, and perhaps neither did the consumer."""
        self.receive(None)

    async def what_is_there(self) -> AsyncIterator[Delivered]:
        """As many as were pending, without waiting for more; fewer when some left the stream."""
        left = self.pending
        while left > 0:
            if self.owed == 0:
                await self.ask(min(left, _AT_ONCE), wait=False)
            came = await self.next()
            if came is End.NOTHING_MORE:
                return
            if not isinstance(came, End):
                left -= 1
                yield came

    async def what_comes(self, *, at_once: int) -> AsyncIterator[Delivered]:
        """Without end."""
        while True:
            if self.owed == 0:
                await self.ask(at_once, wait=True)
            came = await self.next()
            if not isinstance(came, End):
                yield came

    async def ask(self, count: int, *, wait: bool, most_bytes: int | None = None) -> None:
        """For so many, of those that are there or of those that come."""
        body: dict[str, Any] = {"batch": count}
        body |= {"expires": _EXPIRES_NS} if wait else {"no_wait": True}
        if most_bytes is not None:
            body["max_bytes"] = most_bytes
        self.owed += count
        await self._connection.publish(self._next, orjson.dumps(body), reply=self.inbox)

    async def next(self) -> Delivered | End:
        """The next delivery, or how a pull ended; raises PullBroken."""
        if self._broken is not None:
            raise self._broken
        if not self._arrived:
            await self._wait()
        return self._read(self._arrived.popleft())

    def next_arrived(self) -> Delivered | End | None:
        """What has come already, if anything; a break is left for `next` to tell."""
        if not self._arrived or self._broken is not None:
            return None
        try:
            return self._read(self._arrived.popleft())
        except PullBroken as broken:
            self._broken = broken
            return None

    async def _wait(self) -> None:
        self._came.clear()
        try:
            async with asyncio.timeout(PULL_SECONDS + _SLACK_SECONDS):
                await self._came.wait()
        except TimeoutError:
            raise PullBroken("a pull came to no end") from None

    def _read(self, message: Message | None) -> Delivered | End:
        if message is None:
            raise PullBroken("the connection is a new one")
        # Only the server's own word has no reply: whoever wrote a message may have added headers.
        info = read_reply(message.reply)
        if info is None:
            return self._read_end(message.headers or {})
        if self._alone and info.consumer_sequence != self._number + 1:
            raise PullBroken(f"deliveries {self._number + 1} to {info.consumer_sequence} are lost")
        self._number = info.consumer_sequence
        self.owed -= 1
        return message, info

    def _read_end(self, headers: Mapping[str, str]) -> End:
        end, undelivered = read_end(headers), read_undelivered(headers)
        self.owed = 0 if undelivered is None else max(0, self.owed - undelivered)
        return end


@asynccontextmanager
async def pulling(
    connection: Connection, stream: str, consumer: str, *, pending: int = 0, alone: bool = False
) -> AsyncIterator[PullConsumer]:
    """From a consumer that exists."""
    made = PullConsumer(connection, stream, consumer, pending=pending, alone=alone)
    subscription = await connection.subscribe(made.inbox, made.receive)
    forget = connection.on_reconnect(made.reconnected)
    try:
        yield made
    finally:
        forget()
        await connection.unsubscribe(subscription)


@dataclass(frozen=True, slots=True, kw_only=True)
class EphemeralConsumer:
    """A consumer for one reading, from a sequence or a time on, of all subjects or of one family.

    The server removes it when nobody has pulled for `idle`. `is_deleted`: we do that at the end,
    and need the right to; without it the server says so aloud each time.
    """

    stream: str
    purpose: str
    first: int = 1
    since: datetime | None = None
    subject: str | None = None
    idle: timedelta
    is_deleted: bool

    def config(self, name: str) -> dict[str, Any]:
        wanted: dict[str, Any] = {
            "name": name,
            "ack_policy": "none",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": int(self.idle.total_seconds() * 1e9),
            **self._beginning(),
        }
        if self.subject is not None:
            wanted["filter_subject"] = self.subject
        return wanted

    def _beginning(self) -> dict[str, Any]:
        if self.first > 1:
            return {"deliver_policy": "by_start_sequence", "opt_start_seq": self.first}
        if self.since is not None:
            return {"deliver_policy": "by_start_time", "opt_start_time": self.since.isoformat()}
        return {"deliver_policy": "all"}


@asynccontextmanager
async def pulling_anew(
    connection: Connection, wanted: EphemeralConsumer
) -> AsyncIterator[PullConsumer]:
    """From a consumer of our own; raises InfrastructureMissing when there is no such stream."""
    name = f"{wanted.purpose}-{secrets.token_hex(8)}"
    pending = await _make(connection, name, wanted)
    try:
        async with pulling(connection, wanted.stream, name, pending=pending, alone=True) as made:
            yield made
    finally:
        if wanted.is_deleted:
            # Nobody waits for the answer: if this is lost, the consumer ends by itself.
            connection.publish_now(connection.api(f"CONSUMER.DELETE.{wanted.stream}.{name}"), b"")


async def _make(connection: Connection, name: str, wanted: EphemeralConsumer) -> int:
    """Returns how many messages it has to deliver.

    The filter is part of the request's subject, so permissions can hold a service to its own jobs.
    """
    call = ".".join(filter(None, ("CONSUMER.CREATE", wanted.stream, name, wanted.subject)))
    body = {"stream_name": wanted.stream, "action": "create", "config": wanted.config(name)}
    try:
        made = await api.request(connection, call, body)
    except RequestRefused as refusal:
        if refusal.code == api.STREAM_NOT_FOUND:
            raise InfrastructureMissing(f"stream {wanted.stream}") from refusal
        raise
    return int(made.get("num_pending", 0))
