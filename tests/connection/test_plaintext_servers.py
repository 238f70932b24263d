"""Where TLS is required, a server without TLS gets nothing: no CONNECT, no credentials.

nats-py uses TLS only if the server's INFO contains `tls_required`. Before the check, it sent the
password and the signed nonce in clear text to a server without it, even with a `tls://` URL or TLS
files.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import trustme

from tests.cli.command import running
from tests.support.facts import until
from trellis_jobs import ConnectOptions, NotEncrypted, TlsFiles
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client.connection import Connection

PLAIN_INFO: Final = {
    "server_id": "LIAR",
    "version": "2.15.1",
    "auth_required": True,
    "nonce": "c2lnbiB0aGlz",
    "max_payload": 1_048_576,
    "headers": True,
}


@dataclass
class Front:
    """A proxy that passes clients on to a real server, or imitates a server without TLS."""

    behind: int | None = None
    lies: bool = False
    tells_of: list[str] = field(default_factory=list)
    heard: bytes = b""
    met: int = 0
    port: int = 0
    links: set[asyncio.StreamWriter] = field(default_factory=set)
    serving: set[asyncio.Task[Any]] = field(default_factory=set)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        for link in self.links:
            link.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.links.add(writer)
        if task := asyncio.current_task():
            self.serving.add(task)
        with suppress(OSError):
            if self.lies:
                await self._lie(reader, writer)
            else:
                await self._pass_on(reader, writer)
        self.links.discard(writer)
        writer.close()

    async def _lie(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.met += 1
        writer.write(_line(PLAIN_INFO))
        while chunk := await reader.read(4096):
            self.heard += chunk
            if b"PING" in chunk:
                writer.write(b"PONG\r\n")

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.behind)
        info = json.loads((await server_reader.readline()).removeprefix(b"INFO "))
        writer.write(_line(info | {"connect_urls": self.tells_of}))
        one = asyncio.create_task(_copy(reader, server_writer))
        other = asyncio.create_task(_copy(server_reader, writer))
        await asyncio.wait({one, other}, return_when=asyncio.FIRST_COMPLETED)
        one.cancel()
        other.cancel()
        server_writer.close()
        await server_writer.wait_closed()


def _line(info: dict[str, Any]) -> bytes:
    return b"INFO " + json.dumps(info).encode() + b"\r\n"


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(65536):
            writer.write(chunk)


@asynccontextmanager
async def front(behind: int | None = None) -> AsyncIterator[Front]:
    serving = Front(behind, lies=behind is None)
    server = await asyncio.start_server(serving.serve, "127.0.0.1", 0)
    serving.port = server.sockets[0].getsockname()[1]
    try:
        yield serving
    finally:
        server.close()
        serving.cut()
        await asyncio.gather(*serving.serving)


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def files(authority: trustme.CA, tmp_path: Path) -> TlsFiles:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return TlsFiles(ca=str(tmp_path / "ca.pem"))


def tls_config(authority: trustme.CA, folder: Path) -> str:
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
        folder / "server.pem"
    )
    own = folder / "server.pem"
    return (
        f'tls {{ cert_file: "{own}", key_file: "{own}" }}\n'
        "authorization { users: [ { user: ann, password: sesame } ] }"
    )


@pytest.fixture
def tls_server(authority: trustme.CA, tmp_path: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer.start(config=tls_config(authority, tmp_path)) as server:
        yield server


async def test_a_server_without_tls_gets_no_credentials(files: TlsFiles) -> None:
    async with front() as liar:
        for options in (
            ConnectOptions(servers=f"tls://ann:sesame@{liar.address}"),
            ConnectOptions(servers=f"nats://ann:sesame@{liar.address}", tls=files),
            ConnectOptions(servers=f"nats://ann:sesame@{liar.address},tls://127.0.0.1:1"),
        ):
            with pytest.raises(NotEncrypted, match="offers no TLS"):
                await Connection.open(options, name="test", retry_connect=False)
        assert liar.met >= 3
        assert liar.heard == b""


async def test_without_tls_in_address_or_files_a_plaintext_server_is_fine() -> None:
    async with front() as plain:
        connection = await Connection.open(f"nats://ann:sesame@{plain.address}", name="test")
        await connection.close()
        assert b"sesame" in plain.heard


async def test_a_server_that_drops_tls_later_gets_no_credentials(
    tls_server: EmbeddedServer, files: TlsFiles
) -> None:
    async with front(tls_server.port) as way:
        options = ConnectOptions(servers=f"tls://ann:sesame@{way.address}", tls=files)
        connection = await Connection.open(options, name="test")
        assert connection.is_encrypted
        way.lies = True
        way.cut()
        await until(lambda: way.met >= 3, "the client tried to reconnect more than once")
        assert not connection.is_connected
        way.lies = False
        await until(
            lambda: connection.is_connected, "the client reconnects once the server uses TLS again"
        )
        assert connection.is_encrypted
        assert way.heard == b""
        await connection.close()


@pytest.mark.parametrize("scheme", ["tls", "nats"])
async def test_a_discovered_server_without_tls_gets_no_credentials(
    tls_server: EmbeddedServer, files: TlsFiles, scheme: str
) -> None:
    async with front(tls_server.port) as way, front() as liar:
        way.tells_of = [liar.address]
        options = ConnectOptions(servers=f"{scheme}://ann:sesame@{way.address}", tls=files)
        connection = await Connection.open(options, name="test")
        way.lies = True
        way.cut()
        await until(lambda: liar.met >= 2, "the client tried the discovered server")
        assert liar.heard == way.heard == b""
        assert not connection.is_connected
        await connection.close()


async def test_further_connections_of_a_worker_require_tls_too(
    tls_server: EmbeddedServer, files: TlsFiles
) -> None:
    """The thread that renews leases opens a second connection."""
    async with front(tls_server.port) as way:
        options = ConnectOptions(servers=f"tls://ann:sesame@{way.address}", tls=files)
        connection = await Connection.open(options, name="test", timeout=1)
        way.lies = True
        with pytest.raises(NotEncrypted):
            await connection.open_another()
        assert way.heard == b""
        await connection.close()


async def test_commands_require_tls_too(tmp_path: Path, files: TlsFiles) -> None:
    async with front() as liar:
        for url, env in (
            (f"tls://ann:sesame@{liar.address}", {}),
            (f"nats://ann:sesame@{liar.address}", {"NATS_CA": files.ca or ""}),
        ):
            with running(tmp_path, "jobs", "list", "--nats", url, env=env) as command:
                assert await command.until_exit() == 1
                assert "offers no TLS" in command.printed
                assert "sesame" not in command.printed
        assert liar.met >= 2
        assert liar.heard == b""


async def test_tls_can_come_before_everything_else(
    tls_server: EmbeddedServer, files: TlsFiles
) -> None:
    """With `handshake_first` the server sends nothing before the TLS handshake."""
    file = tls_server.store / "nats.conf"
    file.write_text(file.read_text().replace("tls {", "tls { handshake_first: true,"))
    os.kill(tls_server.pid, signal.SIGHUP)
    options = ConnectOptions(servers=tls_server.url, tls=files, user="ann", password="sesame")  # noqa: S106
    await until(partial(_sends_nothing, tls_server.port), "the server waits for TLS")
    connection = await Connection.open(replace(options, tls_first=True), name="test")
    assert connection.is_encrypted
    await connection.close()


async def _sends_nothing(port: int) -> bool:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(0.2):
            return not await reader.readline()
    except TimeoutError:
        return True
    finally:
        writer.close()
