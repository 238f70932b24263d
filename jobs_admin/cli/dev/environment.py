"""The server of a session, embedded or existing, with an admin runtime."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from jobs_admin import retention_policy
from jobs_admin.api.client import AdminClient
from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.render.output import print_stderr
from jobs_admin.config import AdminConfig
from jobs_admin.daemon import serving
from trellis_jobs.embedded import HOST, EmbeddedServer, EmbeddedServerFailed
from trellis_jobs.errors import JobsError, ServiceMissing, Unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trellis_jobs.jetstream.client.connect_options import ConnectOptions
    from trellis_jobs.jetstream.client.connection import Connection

# The default port of NATS, which other commands use without options.
DEFAULT_PORT: Final = 4222
PROJECTION: Final = "jobs.sqlite"
_NEXT: Final = "trellis-jobs jobs list"


class PortTaken(JobsError):
    def __init__(self, port: int) -> None:
        super().__init__(
            f"port {port} is in use: stop the process that listens there, or omit --port to use a "
            "free port"
        )
        self.port = port


@dataclass(frozen=True, slots=True)
class DevEnvironment:
    """`connection` reads the events; `hint` shows how other commands find the server.

    `console` says where the web console is, or why there is none.
    """

    options: ConnectionOptions
    connection: Connection
    hint: str
    console: str | None = None

    @property
    def heading(self) -> str:
        version = self.connection.server_version
        return f"trellis-jobs dev   {self.options.connect_options()}   nats-server {version}"

    @property
    def hints(self) -> tuple[str, ...]:
        return (self.hint,) if self.console is None else (self.hint, self.console)


@asynccontextmanager
async def with_embedded_server(
    data: Path | None, port: int | None
) -> AsyncIterator[DevEnvironment]:
    """Port None is the default port, or a free one if that is in use; 0 is any free port."""
    server = await asyncio.to_thread(_start, data, port)
    try:
        options = ConnectionOptions(nats=server.url)
        async with (
            _admin(options.connect_options(), server.store / PROJECTION),
            options.connection(reconnect=True) as connection,
        ):
            yield DevEnvironment(options, connection, _hint(server, port))
    finally:
        await asyncio.to_thread(server.stop)


def _hint(server: EmbeddedServer, port: int | None) -> str:
    """A shell command that fits into 80 columns."""
    command = f"export NATS_URL={server.url} && {_NEXT}"
    is_default_in_use = port is None and server.port != DEFAULT_PORT
    return f"{command}  # {DEFAULT_PORT} in use" if is_default_in_use else command


@asynccontextmanager
async def with_existing_server(options: ConnectionOptions) -> AsyncIterator[DevEnvironment]:
    """Starts an admin runtime only if none answers."""
    hint = f"{_NEXT}, with the same options"
    async with _connection(options) as connection:
        try:
            await AdminClient(connection).health()
        except ServiceMissing:
            with TemporaryDirectory(prefix="trellis-jobs-") as folder:
                async with _admin(options.connect_options(), Path(folder) / PROJECTION):
                    yield DevEnvironment(options, connection, hint)
            return
        yield DevEnvironment(options, connection, hint)


@asynccontextmanager
async def _connection(options: ConnectionOptions) -> AsyncIterator[Connection]:
    try:
        async with options.connection(reconnect=True) as connection:
            yield connection
    except Unreachable:
        print_stderr(
            "--nats, --context or the environment names this server; without them, dev starts an "
            "embedded server."
        )
        raise


@asynccontextmanager
async def _admin(access: ConnectOptions, projection: Path) -> AsyncIterator[None]:
    """Keeps all jobs: a developer wants to see them, and the server may be shared."""
    config = AdminConfig(
        nats=access,
        path=projection,
        provision=True,
        retention=retention_policy.parse(retention_policy.KEEP_ALL),
    )
    async with serving(config):
        yield


def _start(data: Path | None, port: int | None) -> EmbeddedServer:
    if port and not _is_free(port):
        raise PortTaken(port)
    if port is None and _is_free(DEFAULT_PORT):
        try:
            return EmbeddedServer.start(store=data, port=DEFAULT_PORT)
        except EmbeddedServerFailed:
            if _is_free(DEFAULT_PORT):  # the port is not the cause
                raise
    return EmbeddedServer.start(store=data, port=port)


def _is_free(port: int) -> bool:
    with closing(socket.socket()) as trial:
        # Like nats-server, ignore connections in TIME_WAIT.
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((HOST, port))
        except OSError:
            return False
        return True
