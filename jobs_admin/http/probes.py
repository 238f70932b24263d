"""`/live` and `/ready` over HTTP, for orchestrators and load balancers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol

from jobs_admin.api.errors import PortUnavailable

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncIterator, Awaitable, Callable

LOOPBACK: Final = "127.0.0.1"
REQUEST_TIMEOUT: Final = 10.0
_MAX_REQUEST_BYTES: Final = 8 * 1024
_MAX_CONNECTIONS: Final = 32


class Report(Protocol):
    """The health report of an admin runtime or a worker."""

    @property
    def is_ready(self) -> bool: ...

    def encode(self) -> bytes: ...


class Probes:
    """`/live` is OK while this process answers; `/ready` is OK while its report is."""

    def __init__(self, report: Callable[[], Awaitable[Report]]) -> None:
        self._report = report
        self._open_connections = 0

    @asynccontextmanager
    async def open(self, port: int, host: str = LOOPBACK) -> AsyncIterator[int]:
        """Listen on a port, 0 for any free one. Remote probes need another host."""
        try:
            listening = _listen(host, port)
        except (OSError, OverflowError) as error:
            raise PortUnavailable(host, port, str(error)) from error
        server = await asyncio.start_server(self._receive, sock=listening, limit=_MAX_REQUEST_BYTES)
        try:
            yield int(server.sockets[0].getsockname()[1])
        finally:
            server.close()
            await server.wait_closed()

    async def _receive(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Answer one request and close the connection; drop a client that sends nothing."""
        self._open_connections += 1
        try:
            if self._open_connections <= _MAX_CONNECTIONS:
                async with asyncio.timeout(REQUEST_TIMEOUT):
                    status, body = await self._answer(await reader.readuntil(b"\r\n\r\n"))
                    writer.write(_response(status, body))
                    await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._open_connections -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, request: bytes) -> tuple[HTTPStatus, bytes]:
        method, _, rest = request.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method != b"GET":
            return HTTPStatus.METHOD_NOT_ALLOWED, b'{"error":"use GET"}'
        if path == b"/live":
            return HTTPStatus.OK, b'{"status":"ok"}'
        if path == b"/ready":
            report = await self._report()
            status = HTTPStatus.OK if report.is_ready else HTTPStatus.SERVICE_UNAVAILABLE
            return status, report.encode()
        return HTTPStatus.NOT_FOUND, b'{"error":"use /live or /ready"}'


def _listen(host: str, port: int) -> socket.socket:
    """`::` also listens on IPv4 if the machine has both."""
    [(family, _, _, _, address), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    is_dual = host == "::" and socket.has_dualstack_ipv6()
    return socket.create_server(address[:2], family=family, dualstack_ipv6=is_dual)


def _response(status: HTTPStatus, data: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(data)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + data
