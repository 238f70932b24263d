"""Three nats-servers on this machine that form one JetStream cluster, with a system account."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import SystemRandom
from typing import Final

from tests.support.facts import DEADLINE, until
from trellis_jobs.embedded import HOST, EmbeddedServer
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import Connection

SIZE: Final = 3
_UNUSED_PORT: Final = 1  # no server listens there
# Below the ephemeral ports of Linux, which another process could get before they are used.
_NOT_GIVEN_AWAY: Final = range(20_000, 32_768)

_NODE: Final = """
server_name: node-{number}
cluster {{
    name: lab
    listen: "{host}:{route}"
    routes: [{routes}]
    # Nodes do not advertise other addresses than the configured ones.
    no_advertise: true
    advertise: "{host}:{nowhere}"
}}
accounts {{
    SYS: {{ users: [{{ user: sys, password: sys }}] }}
    APP: {{ jetstream: enabled, users: [{{ user: app, password: app }}] }}
}}
system_account: SYS
"""


@dataclass(frozen=True)
class Cluster:
    nodes: list[EmbeddedServer]

    @property
    def url(self) -> str:
        return ",".join(address("app", node.port) for node in self.nodes)

    @property
    def system_url(self) -> str:
        return ",".join(address("sys", node.port) for node in self.nodes)

    async def until_ready(self) -> None:
        """Until the cluster has a leader that knows all three and can place three replicas."""
        connection = await Connection.open(self.url, name="cluster probe", timeout=DEADLINE)
        try:
            await until(lambda: _places_three_replicas(connection), "the cluster is complete")
        finally:
            await connection.close()


@dataclass(frozen=True)
class Routes:
    """`listening`: the port at which each node awaits the others; `dialled[a][b]`: a's way to b."""

    listening: Sequence[int]
    dialled: Sequence[Sequence[int]]

    @classmethod
    def direct(cls) -> Routes:
        ports = free_ports(SIZE)
        return cls(ports, [ports] * SIZE)


@contextmanager
def cluster(routes: Routes | None = None, *, binary: Path | None = None) -> Iterator[Cluster]:
    routes = routes or Routes.direct()
    with ExitStack() as stack:
        started = (
            EmbeddedServer.start(config=_config(number, routes), binary=binary)
            for number in range(SIZE)
        )
        yield Cluster([stack.enter_context(node) for node in started])


async def _places_three_replicas(connection: Connection) -> bool:
    config = {"name": "PROBE", "subjects": ["probe"], "num_replicas": SIZE}
    try:
        await api.request(connection, "STREAM.CREATE.PROBE", config)
        await api.request(connection, "STREAM.DELETE.PROBE")
    except JobsError:
        return False
    return True


def _config(number: int, routes: Routes) -> str:
    listed = ", ".join(f'"nats-route://{HOST}:{port}"' for port in routes.dialled[number])
    return _NODE.format(
        number=number,
        host=HOST,
        route=routes.listening[number],
        routes=listed,
        nowhere=_UNUSED_PORT,
    )


def address(user: str, port: int) -> str:
    return f"nats://{user}:{user}@{HOST}:{port}"


def free_ports(count: int) -> list[int]:
    tried = SystemRandom().sample(_NOT_GIVEN_AWAY, len(_NOT_GIVEN_AWAY))
    return list(islice(filter(_is_free, tried), count))


def _is_free(port: int) -> bool:
    with socket.socket() as asking:
        try:
            asking.bind((HOST, port))
        except OSError:
            return False
    return True
