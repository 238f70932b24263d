"""With a full buffer or without a connection, a publish waits or is not sent, as chosen."""

from __future__ import annotations

import asyncio

from tests.support.facts import until
from tests.support.fault_proxy import fault_proxy
from tests.support.lab import probe
from trellis_jobs.embedded import EmbeddedServer


async def test_publish_nowait_sends_at_once_or_not_at_all(server: EmbeddedServer) -> None:
    received: list[bytes] = []
    async with (
        fault_proxy(server.url) as way,
        probe(way.url) as sender,
        probe(server.url) as listener,
    ):
        await listener.connection.subscribe("news", lambda message: received.append(message.data))
        await listener.connection.flush()
        assert sender.connection.publish_nowait("news", b"first")
        await until(lambda: received == [b"first"], "the first arrives")
        way.refuse()
        await until(lambda: not sender.connection.is_connected, "the connection is lost")
        assert not sender.connection.publish_nowait("news", b"second")
        way.admit()
        async with asyncio.timeout(20):
            await sender.connection.wait_until_connected()
        assert sender.connection.publish_nowait("news", b"third")
        await until(lambda: received == [b"first", b"third"], "the third arrives, the second never")
