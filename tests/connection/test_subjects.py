"""No text from outside becomes a protocol command, even if no earlier check refused it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import InvalidToken
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.client.message import Message

COMMAND = "anything 0\r\n\r\nPUB canary 0\r\n\r\nPUB y"
SUBJECTS = (COMMAND, "two words", "a\tb", "a\x00b", "x" * 5000)


async def publish(connection: Connection, subject: str) -> object:
    await connection.publish(subject, b"")
    return None


async def publish_nowait(connection: Connection, subject: str) -> object:
    return connection.publish_nowait(subject, b"")


async def request(connection: Connection, subject: str) -> object:
    return await connection.request(subject, timeout=1)


async def subscribe(connection: Connection, subject: str) -> object:
    return await connection.subscribe(subject, lambda _: None)


@pytest.mark.parametrize("use", [publish, publish_nowait, request, subscribe])
@pytest.mark.parametrize("subject", SUBJECTS)
async def test_an_invalid_subject_is_never_sent(
    server: EmbeddedServer, use: Callable[[Connection, str], Awaitable[object]], subject: str
) -> None:
    connection = await Connection.open(server.url, name="test")
    try:
        arrived: asyncio.Queue[Message] = asyncio.Queue()
        await connection.subscribe("canary", arrived.put_nowait)
        with pytest.raises(InvalidToken, match="subject"):
            await use(connection, subject)
        await connection.publish("canary", b"ours")
        assert (await arrived.get()).data == b"ours"
    finally:
        await connection.close()
