"""A connection to an in-memory server, without nats-py and without a network."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.features import LEVEL_2_11, LEVEL_2_12, Features
from trellis_jobs.jetstream.client.connect_options import ConnectOptions
from trellis_jobs.jetstream.client.connection import Connection, ConnectionLost
from trellis_jobs.jetstream.client.fast_parser import Receive, deliver
from trellis_jobs.jetstream.client.message import Message
from trellis_jobs.testing.memory_stream import matches

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from trellis_jobs.testing.memory_server import MemoryServer

# Guarded appends without atomic batches, which a single process does not need.
FEATURES: Final = Features("in memory", LEVEL_2_11)
# The stream of alarms has message schedules.
ALARM_FEATURES: Final = Features("in memory", LEVEL_2_12)
_MAX_PAYLOAD: Final = 1 << 20


@dataclass(eq=False, slots=True)
class MemorySubscription:
    subject: str
    receive: Receive
    subscriptions: list[MemorySubscription]

    async def unsubscribe(self) -> None:
        if self in self.subscriptions:
            self.subscriptions.remove(self)

    async def drain(self) -> None:
        await self.unsubscribe()


class MemoryClient:
    """Implements `CoreClient`: the server gets messages at once, its replies arrive a moment later.

    Subscriptions have no groups, because there is one client only.
    """

    server_info: Mapping[str, Any] = MappingProxyType({})
    server_version = "unknown"
    server_address = "memory"
    is_encrypted = False
    max_payload = _MAX_PAYLOAD

    def __init__(self, server: MemoryServer) -> None:
        self.is_closed = False
        self.subscriptions: list[MemorySubscription] = []
        self._server = server
        server.clients.append(self._arrive)
        self._arrived: asyncio.Queue[tuple[MemorySubscription, Message]] = asyncio.Queue()
        self._receiving = asyncio.create_task(self._keep_receiving())

    @property
    def is_connected(self) -> bool:
        return not self.is_closed

    def new_inbox(self) -> str:
        return f"_INBOX.{secrets.token_hex(11)}"

    def publish_nowait(self, subject: str, reply: str, headers: bytes, data: bytes) -> bool:
        if self.is_closed:
            return False
        self._server.receive(Message(subject, data, reply, headers))
        return True

    async def publish_waiting(self, subject: str, reply: str, headers: bytes, data: bytes) -> None:
        if not self.publish_nowait(subject, reply, headers, data):
            raise ConnectionLost("the connection was closed")

    async def subscribe_callback(
        self, subject: str, receive: Receive, group: str = ""
    ) -> MemorySubscription:
        subscription = MemorySubscription(subject, receive, self.subscriptions)
        self.subscriptions.append(subscription)
        return subscription

    async def flush(self) -> None:
        """The server has everything at once."""

    async def close(self) -> None:
        self.is_closed = True
        self._server.clients.remove(self._arrive)
        self._receiving.cancel()
        await asyncio.gather(self._receiving, return_exceptions=True)

    def _arrive(self, to: str, message: Message) -> None:
        for subscription in self.subscriptions:
            if matches(to, subscription.subject):
                self._arrived.put_nowait((subscription, message))

    async def _keep_receiving(self) -> None:
        while True:
            subscription, message = await self._arrived.get()
            if subscription in self.subscriptions:
                deliver(subscription.receive, message)


@asynccontextmanager
async def memory_connection(server: MemoryServer) -> AsyncIterator[Connection]:
    connection = await _open(server)
    try:
        yield connection
    finally:
        await connection.close()


async def _open(server: MemoryServer) -> Connection:
    client, options = MemoryClient(server), ConnectOptions(servers="memory")
    connection = Connection(client, partial(_open, server), options)
    await connection.open_inbox()
    return connection
