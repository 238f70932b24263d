"""The proxy with faults: each message meets its own rules, whatever else its chunk holds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from tests.support.facts import DEADLINE, until
from tests.support.fault_proxy import FaultProxy, Then, fault_proxy
from trellis_jobs.embedded import HOST, EmbeddedServer

READ = b"$JS.API.DIRECT.GET.JOBS.any"
HELLO = (
    b"CONNECT %b\r\nSUB _INBOX.> 1\r\nSUB news 2\r\n"
    % json.dumps({"verbose": False, "headers": True}).encode()
)


@pytest.fixture
async def way(server: EmbeddedServer) -> AsyncIterator[FaultProxy]:
    async with fault_proxy(server.url) as made:
        yield made


async def said_to(way: FaultProxy, *pieces: bytes, end: bytes) -> bytes:
    """What a client hears that sends each piece at once, from its greeting to these bytes."""
    reader, writer = await asyncio.open_connection(HOST, way.port)
    await reader.readline()
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
    async with asyncio.timeout(DEADLINE):
        heard = await reader.readuntil(end)
    writer.close()
    await writer.wait_closed()
    return heard


def published(subject: bytes, data: bytes = b"", reply: bytes = b"") -> bytes:
    return b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(data), data)


async def test_a_rule_takes_its_message_out_of_a_chunk_and_no_other(way: FaultProxy) -> None:
    way.when_client_sends(rb"second", lambda: Then.SWALLOW)
    told = way.answer_reads_with_404(times=1)
    subjects: list[str] = []
    way.on_message(subjects.append)
    several = [
        published(b"news", b"first\r\nPUB news 9"),
        published(READ, reply=b"_INBOX.a"),
        published(b"news", b"second"),
        published(b"news", b"third"),
    ]
    heard = await said_to(way, HELLO + b"".join(several) + b"PING\r\n", end=b"PONG\r\n")
    assert told() == 1
    assert b"404" in heard
    assert b"first" in heard
    assert b"third" in heard
    assert b"second" not in heard
    assert subjects == ["news", "news"]


async def test_a_message_that_comes_in_pieces_meets_its_rule(way: FaultProxy) -> None:
    way.when_client_sends(rb"^PUB news .*the end", lambda: Then.SWALLOW)
    long = published(b"news", b"x" * 200_000 + b"the end")
    heard = await said_to(way, HELLO, long[:100_000], long[100_000:], b"PING\r\n", end=b"PONG")
    assert heard == b"PONG"


async def test_nothing_passes_that_follows_what_held_everything_back(way: FaultProxy) -> None:
    way.freeze_after(rb"first")
    both = published(b"news", b"first") + published(b"news", b"second")
    hearing = asyncio.ensure_future(said_to(way, HELLO + both + b"PING\r\n", end=b"PONG"))
    await until(lambda: not way._flowing.is_set(), "everything is held back")
    way.when_client_sends(rb"second", lambda: Then.SWALLOW)
    way.thaw()
    assert b"second" not in await hearing
