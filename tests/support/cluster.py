"""Three nats-servers on this machine that form one JetStream cluster, with a system account."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from tests.support.facts import until
from trellis_jobs.embedded import HOST, EmbeddedServer
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream import api
from trellis_jobs.jetstream.connection import Connection

SIZE: Final = 3

_NODE: Final = """
server_name: node-{number}
cluster {{
    name: lab
    listen: "{host}:{route}"
    routes: [{routes}]
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
        return ",".join(_as("app", node) for node in self.nodes)

    @property
    def system_url(self) -> str:
        return ",".join(_as("sys", node) for node in self.nodes)

    async def until_ready(self) -> None:
        """Until the cluster has a leader that knows all three and can place three replicas."""
        connection = await Connection.open(self.url, name="cluster probe")
        try:
            await until(lambda: _places_three_replicas(connection), "the cluster is complete")
        finally:
            await connection.close()


@contextmanager
def cluster() -> Iterator[Cluster]:
    routes = free_ports(SIZE)
    with ExitStack() as stack:
        yield Cluster(
            [
                stack.enter_context(EmbeddedServer.start(config=_config(number, routes)))
                for number in range(SIZE)
            ]
        )


async def _places_three_replicas(connection: Connection) -> bool:
    config = {"name": "PROBE", "subjects": ["probe"], "num_replicas": SIZE}
    try:
        await api.request(connection, "STREAM.CREATE.PROBE", config)
        await api.request(connection, "STREAM.DELETE.PROBE")
    except JobsError:
        return False
    return True


def _config(number: int, routes: list[int]) -> str:
    listed = ", ".join(f'"nats-route://{HOST}:{port}"' for port in routes)
    return _NODE.format(number=number, host=HOST, route=routes[number], routes=listed)


def _as(user: str, node: EmbeddedServer) -> str:
    return f"nats://{user}:{user}@{HOST}:{node.port}"


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for taken in sockets:
            taken.bind((HOST, 0))
        return [int(taken.getsockname()[1]) for taken in sockets]
