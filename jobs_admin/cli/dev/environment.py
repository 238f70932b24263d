"""What a session stands on: a server, its own or somebody else's, with an admin runtime."""

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
from jobs_admin.cli.render.output import say
from jobs_admin.config import AdminConfig
from jobs_admin.daemon import serving
from trellis_jobs.embedded import HOST, EmbeddedServer, EmbeddedServerFailed
from trellis_jobs.errors import JobsError, ServiceMissing, Unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trellis_jobs.jetstream.client.connect_options import ConnectOptions
    from trellis_jobs.jetstream.client.connection import Connection

# Where other commands look if they are told nothing.
USUAL_PORT: Final = 4222
PROJECTION: Final = "jobs.sqlite"
_NEXT: Final = "trellis-jobs jobs list"


class PortTaken(JobsError):
    def __init__(self, port: int) -> None:
        super().__init__(
            f"port {port} is taken: end what listens there, or leave --port away for a free one"
        )
        self.port = port


@dataclass(frozen=True, slots=True)
class Ground:
    """`connection` is for watching; `hint` is how other commands find the server."""

    reach: ConnectionOptions
    connection: Connection
    hint: str

    @property
    def heading(self) -> str:
        version = self.connection.server_version
        return f"trellis-jobs dev   {self.reach.access()}   nats-server {version}"


@asynccontextmanager
async def own_ground(data: Path | None, port: int | None) -> AsyncIterator[Ground]:
    """Port None is the usual one, or a free one if that is taken; 0 is any free one."""
    server = await asyncio.to_thread(_start, data, port)
    try:
        reach = ConnectionOptions(nats=server.url)
        async with (
            _admin(reach.access(), server.store / PROJECTION),
            reach.connection(patient=True) as watching,
        ):
            yield Ground(reach, watching, _how_to_reach(server, port))
    finally:
        await asyncio.to_thread(server.stop)


def _how_to_reach(server: EmbeddedServer, wanted: int | None) -> str:
    """Whole in 80 columns, and it may be pasted whole into a shell."""
    command = f"export NATS_URL={server.url} && {_NEXT}"
    is_elsewhere = wanted is None and server.port != USUAL_PORT
    return f"{command}  # {USUAL_PORT} in use" if is_elsewhere else command


@asynccontextmanager
async def ground_at(reach: ConnectionOptions) -> AsyncIterator[Ground]:
    """An admin runtime that is there already is enough."""
    hint = f"{_NEXT}, with the same options"
    async with _connection(reach) as watching:
        try:
            await AdminClient(watching).health()
        except ServiceMissing:
            with TemporaryDirectory(prefix="trellis-jobs-") as folder:
                async with _admin(reach.access(), Path(folder) / PROJECTION):
                    yield Ground(reach, watching, hint)
            return
        yield Ground(reach, watching, hint)


@asynccontextmanager
async def _connection(reach: ConnectionOptions) -> AsyncIterator[Connection]:
    try:
        async with reach.connection(patient=True) as connection:
            yield connection
    except Unreachable:
        say("dev was told to use that server, perhaps by NATS_URL; untold, it has one of its own")
        raise


@asynccontextmanager
async def _admin(access: ConnectOptions, projection: Path) -> AsyncIterator[None]:
    """It removes no job: whoever develops wants to see them, and the server may be another's."""
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
    if port is None and _is_free(USUAL_PORT):
        try:
            return EmbeddedServer.start(store=data, port=USUAL_PORT)
        except EmbeddedServerFailed:
            if _is_free(USUAL_PORT):  # nobody was quicker: it is something else
                raise
    return EmbeddedServer.start(store=data, port=port)


def _is_free(port: int) -> bool:
    with closing(socket.socket()) as trial:
        # Connections that ended a moment ago do not count, as they do not for nats-server.
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((HOST, port))
        except OSError:
            return False
        return True
