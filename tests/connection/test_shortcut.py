"""Messages take a way past nats-py, and arrive in the order of the socket with all the rest."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from tests.support.facts import until
from tests.support.fault_proxy import fault_proxy
from tests.support.lab import probe
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import fast_client
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.client.fast_client import _FastProtocol
from trellis_jobs.jetstream.client.fast_parser import FastParser
from trellis_jobs.jetstream.client.message import Message

MESSAGES = 100


class Heard:
    """What a client is told, in the order in which it is; it takes a while over some of it."""

    def __init__(self) -> None:
        self.told: list[bytes] = []
        self.receivers = {1: self._receive}

    def _receive(self, message: Message) -> None:
        self.told.append(message.data)

    async def _process_ping(self) -> None:
        await asyncio.sleep(0)
        self.told.append(b"PING")
        await asyncio.sleep(0)

    async def _process_pong(self) -> None:
        self.told.append(b"PONG")

    async def _process_info(self, _: object) -> None:
        await asyncio.sleep(0)
        self.told.append(b"INFO")


def line(chance: random.Random, number: int) -> tuple[bytes, bytes]:
    """One thing that a server says, and what the client is told then."""
    data = b"%d" % number + b"\r\nPING\r\n" * chance.randrange(3)
    block = b"NATS/1.0\r\n\r\n"
    sizes = b"%d %d" % (len(block), len(block) + len(data))
    message = b"MSG a.b 1 %d\r\n%b\r\n" % (len(data), data)
    with_headers = b"HMSG a.b 1 reply %b\r\n%b%b\r\n" % (sizes, block, data)
    messages = ((message, data), (with_headers, data))
    others = ((b"PING\r\n", b"PING"), (b"PONG\r\n", b"PONG"), (b'INFO {"a":1}\r\n', b"INFO"))
    return chance.choice(messages if chance.random() < 0.7 else others)


async def parse_what_comes(said: bytes, chance: random.Random, heard: Heard) -> FastParser:
    """In pieces, some of which were there before; nats-py reads its part when it gets to it."""
    early = chance.choice((0, 0, chance.randrange(20)))
    unread, coming = bytearray(said[:early]), bytearray(said[early:])
    parser = FastParser(heard, unparsed=len(unread))

    async def read_on() -> None:
        while coming or unread:
            if unread:
                await parser.parse(cut(unread, chance.randrange(1, 40)))
            await asyncio.sleep(0)

    reading = asyncio.create_task(read_on())
    while coming:
        unread.extend(parser.feed(cut(coming, chance.randrange(1, 60))))
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(0)
    await reading
    return parser


def cut(buffer: bytearray, size: int) -> bytes:
    piece = bytes(buffer[:size])
    del buffer[:size]
    return piece


@settings(max_examples=300, derandomize=True)
@forall(chance=st.randoms(use_true_random=True))
async def test_nothing_overtakes_however_a_socket_cuts_it(chance: random.Random) -> None:
    heard = Heard()
    lines = [line(chance, number) for number in range(chance.randrange(1, 30))]
    parser = await parse_what_comes(b"".join(said for said, _ in lines), chance, heard)
    assert heard.told == [told for _, told in lines]
    assert parser._unparsed == 0


def protocol_of(connection: Connection) -> object:
    writer = connection._client._writer
    assert writer is not None
    return writer.transport.get_protocol()


async def hears_all(connection: Connection) -> bool:
    """In order, with flushes between, of which nats-py has to read the answers."""
    heard: list[int] = []
    await connection.subscribe("news", lambda message: heard.append(len(message.data)))
    for number in range(MESSAGES):
        await connection.publish("news", bytes(number * 100))
        if number % 30 == 0:
            await connection.flush()
    await connection.flush()
    return heard == [number * 100 for number in range(MESSAGES)]


async def test_every_socket_has_the_shortcut_and_keeps_it(server: EmbeddedServer) -> None:
    back = asyncio.Event()
    async with fault_proxy(server.url) as way, probe(way.url) as raw:
        raw.connection.on_reconnect(back.set)
        first = protocol_of(raw.connection)
        assert await hears_all(raw.connection)
        way.cut()
        await until(back.is_set, "the connection is back")
        second = protocol_of(raw.connection)
        assert isinstance(first, _FastProtocol)
        assert isinstance(second, _FastProtocol)
        assert first is not second
        assert await hears_all(raw.connection)
        parser = second._parser
        await until(lambda: parser._unparsed == 0, "nats-py has read what was its own")


async def test_where_nobody_tells_what_is_unread_everything_goes_the_ordinary_way(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_client, "_READ_BUFFER", "renamed")
    async with probe(server.url) as raw:
        assert not isinstance(protocol_of(raw.connection), _FastProtocol)
        assert await hears_all(raw.connection)
