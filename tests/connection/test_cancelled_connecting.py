"""A connection that is given up while it is opened leaves no socket behind."""

from __future__ import annotations

import asyncio
import contextlib

from tests.support.facts import until
from trellis_jobs.jetstream.client.connection import Connection

INFO = b'INFO {"server_id":"x","version":"2.15.1","proto":1,"max_payload":1048576}\r\n'


async def test_the_socket_is_closed_when_connecting_is_cancelled() -> None:
    """The server greets, and answers nothing: the client waits for its PONG."""
    closed: list[bool] = []
    greeted = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(INFO)
        while chunk := await reader.read(1024):
            if b"PING" in chunk:
                greeted.set()
        closed.append(True)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        opening = asyncio.create_task(Connection.open(f"nats://127.0.0.1:{port}", name="test"))
        await greeted.wait()
        opening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await opening
        assert opening.cancelled()
        await until(lambda: closed, "the client closes its socket")
