"""Connections that send no request are closed, so that they do not keep users out."""

from __future__ import annotations

import asyncio

import pytest

from jobs_admin.console.request_timeout import RequestTimeoutProtocol
from tests.console.installation import ConsoleInstallation, console_at

pytestmark = pytest.mark.asyncio(loop_scope="session")

REQUEST = b"GET /static/theme.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
STREAM = b"GET /hints?topics=second HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RequestTimeoutProtocol, "request_timeout", 0.3)


async def connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = address.removeprefix("http://").partition(":")
    return await asyncio.open_connection(host, int(port))


async def closed_with(address: str, sent: bytes) -> bytes:
    """What the console sends until it closes the connection."""
    reader, writer = await connect(address)
    writer.write(sent)
    received = b""
    try:
        async with asyncio.timeout(20):
            while part := await reader.read(65536):
                received += part
    except ConnectionResetError:
        pass
    finally:
        writer.close()
    return received


@pytest.mark.usefixtures("short_timeout")
@pytest.mark.parametrize(
    ("sent", "replies"),
    [(b"", 0), (b"GET / HTTP/1.1\r\nHost:", 0), (REQUEST + b"GET /", 1)],
    ids=["nothing", "a part", "a part of the next"],
)
async def test_a_connection_that_sends_no_whole_request_is_closed(
    shop: ConsoleInstallation, sent: bytes, replies: int
) -> None:
    async with console_at(shop.url) as address:
        assert (await closed_with(address, sent)).count(b"HTTP/1.1 200") == replies


@pytest.mark.usefixtures("short_timeout")
async def test_a_reply_that_takes_longer_is_not_cut(shop: ConsoleInstallation) -> None:
    async with console_at(shop.url) as address:
        reader, writer = await connect(address)
        writer.write(STREAM)
        async with asyncio.timeout(20):
            for _ in range(2):  # one hint each second
                await reader.readuntil(b"data: ")
        writer.close()
