"""A connection to an in-memory server: nats-py without a network."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.features import LEVEL_2_11, Features
from trellis_jobs.jetstream.client.connect_options import ConnectOptions
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.client.fast_client import FastClient
from trellis_jobs.jetstream.client.fast_parser import deliver
from trellis_jobs.jetstream.client.message import Message
from trellis_jobs.testing.memory_server import MemoryServer, matches

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# Guarded appends without atomic batches, which a single process does not need.
FEATURES: Final = Features("in memory", LEVEL_2_11)


class MemoryClient(FastClient):
    """Sends messages to the server at once. Messages from the server arrive asynchronously."""

    def __init__(self) -> None:
        super().__init__()
        self._status = self.CONNECTED
        self._server = MemoryServer(self._arrive)
        self._arrived: asyncio.Queue[tuple[int, Message]] = asyncio.Queue()
        self._receiving = asyncio.create_task(self._keep_receiving())

    def publish_nowait(self, subject: str, reply: str, headers: bytes, data: bytes) -> bool:
        if self.is_closed:
            return False
        self._server.receive(Message(subject, data, reply, headers))
        return True

    async def close(self) -> None:
        self._status = self.CLOSED
        self._receiving.cancel()
        await asyncio.gather(self._receiving, return_exceptions=True)

    def _arrive(self, to: str, message: Message) -> None:
        for number, subscription in list(self._subs.items()):
            if matches(to, subscription.subject):
                self._arrived.put_nowait((number, message))

    async def _keep_receiving(self) -> None:
        while True:
            number, message = await self._arrived.get()
            if (receive := self.receivers.get(number)) is not None:
                deliver(receive, message)

    async def _send_subscribe(self, sub: object) -> None:
        """Nothing to send: the server reads the client's table of subscriptions."""

    async def _send_unsubscribe(self, sid: int, limit: int = 0) -> None:
        """Nothing to send, as above."""


@asynccontextmanager
async def memory_connection() -> AsyncIterator[Connection]:
    connection = await _open()
    try:
        yield connection
    finally:
        await connection.close()


async def _open() -> Connection:
    connection = Connection(MemoryClient(), _open, ConnectOptions(servers="memory"))
    await connection.open_inbox()
    return connection
