"""A flush ends after the server has read everything that was sent before it."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.fault_proxy import fault_proxy
from tests.support.lab import probe
from trellis_jobs.embedded import EmbeddedServer


def ignore(_: object) -> None:
    pass


async def test_the_server_knows_of_a_subscription_when_a_flush_is_answered(
    server: EmbeddedServer,
) -> None:
    async with fault_proxy(server.url) as way, probe(way.url) as raw:
        sent = bytearray()
        way.on_bytes(sent.extend)
        subscription = await raw.connection.subscribe("news", ignore)
        await raw.connection.flush()
        assert sent.index(b"SUB news ") < sent.index(b"PING")
        sent.clear()
        await raw.connection.unsubscribe(subscription)
        await raw.connection.flush()
        assert sent.index(b"UNSUB ") < sent.index(b"PING")


async def test_a_flush_waits_for_a_socket_that_is_full(server: EmbeddedServer) -> None:
    async with fault_proxy(server.url) as way, probe(way.url) as raw:
        way.freeze()
        published = 0
        while raw.connection.publish_nowait("news", bytes(900_000)):
            published += 1
            await asyncio.sleep(0)
        sent = bytearray()
        way.on_bytes(sent.extend)
        # More than nats-py's queue holds, so some flushes wait for room in it.
        flushed = asyncio.gather(*(raw.connection.flush() for _ in range(1100)))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(flushed), 0.1)
        way.thaw()
        await flushed
        assert sent.count(b"PUB news ") == published
        assert sent.rindex(b"PUB news ") < sent.index(b"PING")
