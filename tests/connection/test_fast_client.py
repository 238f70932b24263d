"""The fast client bypasses nats-py for messages, and keeps their order with all other lines."""

from __future__ import annotations

import asyncio
import random
import re
from pathlib import Path

import pytest
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.fault_proxy import fault_proxy
from tests.support.lab import probe, producer, worker
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import CredentialsUnusable
from trellis_jobs.jetstream.client import fast_client
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.client.fast_client import FastClient, _FastProtocol
from trellis_jobs.jetstream.client.fast_parser import FastParser
from trellis_jobs.jetstream.client.message import Message
from trellis_jobs.jetstream.client.plain_client import PlainClient

MESSAGES = 100
# Other classes have attributes of these names.
AMBIGUOUS = {"_pending", "_server_info"}


class RecordingClient:
    """Records what the parser passes on, in order; some of its methods yield to the loop."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.receivers = {1: self._receive}

    def _receive(self, message: Message) -> None:
        self.received.append(message.data)

    async def _process_ping(self) -> None:
        await asyncio.sleep(0)
        self.received.append(b"PING")
        await asyncio.sleep(0)

    async def _process_pong(self) -> None:
        self.received.append(b"PONG")

    async def _process_info(self, _: object) -> None:
        await asyncio.sleep(0)
        self.received.append(b"INFO")


def line(chance: random.Random, number: int) -> tuple[bytes, bytes]:
    """Returns one protocol line of a server, and what the client should receive."""
    data = b"%d" % number + b"\r\nPING\r\n" * chance.randrange(3)
    block = b"NATS/1.0\r\n\r\n"
    sizes = b"%d %d" % (len(block), len(block) + len(data))
    message = b"MSG a.b 1 %d\r\n%b\r\n" % (len(data), data)
    with_headers = b"HMSG a.b 1 reply %b\r\n%b%b\r\n" % (sizes, block, data)
    messages = ((message, data), (with_headers, data))
    others = ((b"PING\r\n", b"PING"), (b"PONG\r\n", b"PONG"), (b'INFO {"a":1}\r\n', b"INFO"))
    return chance.choice(messages if chance.random() < 0.7 else others)


async def parse_in_pieces(
    sent: bytes, chance: random.Random, client: RecordingClient
) -> FastParser:
    """Some bytes are unread before the parser starts; nats-py reads its part concurrently."""
    early = chance.choice((0, 0, chance.randrange(20)))
    unread, coming = bytearray(sent[:early]), bytearray(sent[early:])
    parser = FastParser(client, unparsed=len(unread))

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
    client = RecordingClient()
    lines = [line(chance, number) for number in range(chance.randrange(1, 30))]
    parser = await parse_in_pieces(b"".join(sent for sent, _ in lines), chance, client)
    assert client.received == [expected for _, expected in lines]
    assert parser._unparsed == 0


def protocol_of(connection: Connection) -> object:
    assert isinstance(connection._client, FastClient)
    writer = connection._client._writer
    assert writer is not None
    return writer.transport.get_protocol()


async def receives_all(connection: Connection) -> bool:
    """Checks the order, with flushes in between, whose replies nats-py must read."""
    received: list[int] = []
    await connection.subscribe("news", lambda message: received.append(len(message.data)))
    for number in range(MESSAGES):
        await connection.publish("news", bytes(number * 100))
        if number % 30 == 0:
            await connection.flush()
    await connection.flush()
    return received == [number * 100 for number in range(MESSAGES)]


async def test_every_socket_uses_the_fast_protocol_also_after_a_reconnect(
    server: EmbeddedServer,
) -> None:
    back = asyncio.Event()
    async with fault_proxy(server.url) as way, probe(way.url) as raw:
        raw.connection.on_reconnect(back.set)
        first = protocol_of(raw.connection)
        assert await receives_all(raw.connection)
        way.cut()
        await until(back.is_set, "the connection is back")
        second = protocol_of(raw.connection)
        assert isinstance(first, _FastProtocol)
        assert isinstance(second, _FastProtocol)
        assert first is not second
        assert await receives_all(raw.connection)
        parser = second._parser
        await until(lambda: parser._unparsed == 0, "nats-py has parsed its part")


async def test_without_access_to_the_read_buffer_nats_py_parses_everything(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_client, "_READ_BUFFER", "renamed")
    async with probe(server.url) as raw:
        assert not isinstance(protocol_of(raw.connection), _FastProtocol)
        assert await receives_all(raw.connection)


async def test_without_a_private_name_of_nats_py_jobs_run_on_its_public_interface(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fast_client, "PRIVATE_NAMES", ("_ps", "_renamed"))
    async with producer(server.url) as jobs, probe(server.url) as raw:
        assert type(raw.connection._client) is PlainClient
        assert await receives_all(raw.connection)
        async with worker(server.url, "work") as bench:
            ref = await jobs.work.create(Task(do="wait"))
            await bench.until_running(ref)
            bench.go.set()
            assert (await ref.wait(timeout=20)).tries == 1
    warnings = [r.getMessage() for r in caplog.records if "nats-py" in r.getMessage()]
    assert len(warnings) == 1
    assert warnings[0].startswith("this version of nats-py has no _renamed: ")


async def test_without_a_private_name_of_nats_py_no_credentials_are_sent_where_tls_is_required(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_client, "PRIVATE_NAMES", ("_connect_command_renamed",))
    with pytest.raises(CredentialsUnusable, match="credentials might be sent unencrypted"):
        await Connection.open(server.url.replace("nats:", "tls:"), name="test")


def test_the_installed_nats_py_has_every_private_name() -> None:
    assert fast_client.missing_names() == ()


def test_only_the_fast_client_uses_private_names_of_nats_py() -> None:
    package = Path(fast_client.__file__).parents[2]
    names = "|".join(name for name in fast_client.PRIVATE_NAMES if name not in AMBIGUOUS)
    private = re.compile(rf"\b({names}|_subs|_status)\b")
    users = {
        file.name
        for file in package.rglob("*.py")
        if private.search(file.read_text(encoding="utf-8"))
    }
    assert users == {"fast_client.py"}
