"""`/live` and `/ready` over HTTP, for whatever restarts processes and routes requests to them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol

from jobs_admin.api.errors import PortTaken
from trellis_jobs.wire.fields import dumps

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncIterator, Awaitable, Callable

LOOPBACK: Final = "127.0.0.1"
PATIENCE: Final = 10.0
_LONGEST_REQUEST: Final = 8 * 1024
_MOST_AT_ONCE: Final = 32


class Report(Protocol):
    """What an admin runtime or a worker tells of itself."""

    @property
    def is_ready(self) -> bool: ...

    def to_json(self) -> dict[str, Any]: ...


class Probes:
    """`/live`: this process answers. `/ready`: what it reports is good."""

    def __init__(self, report: Callable[[], Awaitable[Report]]) -> None:
        self._report = report
        self._at_once = 0

    @asynccontextmanager
    async def open(self, port: int, host: str = LOOPBACK) -> AsyncIterator[int]:
        """Port 0 takes a free one. Probes from outside need another host than the default."""
        try:
            listening = _listen(host, port)
        except (OSError, OverflowError) as error:
            raise PortTaken(host, port, str(error)) from error
        server = await asyncio.start_server(self._receive, sock=listening, limit=_LONGEST_REQUEST)
        try:
            yield int(server.sockets[0].getsockname()[1])
        finally:
            server.close()
            await server.wait_closed()

    async def _receive(self, reader: StreamReader, writer: StreamWriter) -> None:
        """One request, then the connection is closed; who says nothing is not waited for."""
        self._at_once += 1
        try:
            if self._at_once <= _MOST_AT_ONCE:
                async with asyncio.timeout(PATIENCE):
                    status, body = await self._answer(await reader.readuntil(b"\r\n\r\n"))
                    writer.write(_response(status, body))
                    await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._at_once -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, request: bytes) -> tuple[HTTPStatus, dict[str, Any]]:
        method, _, rest = request.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method != b"GET":
            return HTTPStatus.METHOD_NOT_ALLOWED, {"error": "only GET"}
        if path == b"/live":
            return HTTPStatus.OK, {"status": "ok"}
        if path == b"/ready":
            report = await self._report()
            status = HTTPStatus.OK if report.is_ready else HTTPStatus.SERVICE_UNAVAILABLE
            return status, report.to_json()
        return HTTPStatus.NOT_FOUND, {"error": "there are /live and /ready"}


def _listen(host: str, port: int) -> socket.socket:
    """`::` is IPv4 as well, where the machine has both."""
    [(family, _, _, _, address), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    is_dual = host == "::" and socket.has_dualstack_ipv6()
    return socket.create_server(address[:2], family=family, dualstack_ipv6=is_dual)


def _response(status: HTTPStatus, body: dict[str, Any]) -> bytes:
    data = dumps(body)
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(data)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + data
