"""Where a campaign is played: servers, a way from each process to each server, the processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from tests.chaos import actors
from tests.chaos.actors import Actor, Kind
from tests.chaos.workload import CHAOS
from tests.support.cluster import SIZE, Cluster, Routes, address, cluster, free_ports
from tests.support.facts import DEADLINE
from tests.support.fault_proxy import FaultProxy, fault_proxy
from trellis_jobs import Service
from trellis_jobs.embedded import HOST, EmbeddedServer


@dataclass(frozen=True)
class Cast:
    """How many processes of each kind."""

    workers: int = 3
    producers: int = 2
    daemons: int = 2

    def names(self) -> list[str]:
        counts = {
            Kind.DAEMON: self.daemons,
            Kind.WORKER: self.workers,
            Kind.PRODUCER: self.producers,
        }
        return [
            f"{kind.value}-{number}" for kind, count in counts.items() for number in range(count)
        ]


@dataclass(frozen=True)
class Servers:
    """`links[a][b]`: what a server sends to another goes that way; none where there is but one."""

    nodes: Sequence[EmbeddedServer]
    links: Mapping[int, Mapping[int, FaultProxy]]

    @property
    def url(self) -> str:
        return ",".join(address("app", node.port) for node in self.nodes)

    def around(self, node: int) -> list[FaultProxy]:
        """Every link of a server to another, from either side."""
        others = [other for other in self.links if other != node]
        return [self.links[a][b] for other in others for a, b in ((node, other), (other, node))]


@dataclass(frozen=True)
class Stage:
    servers: Servers
    actors: Sequence[Actor]
    ways: Mapping[str, Sequence[FaultProxy]]

    def of(self, *kinds: Kind) -> list[Actor]:
        return [actor for actor in self.actors if actor.kind in kinds]

    def all_ways(self) -> list[FaultProxy]:
        links = (of_one.values() for of_one in self.servers.links.values())
        return [*chain(*links), *chain(*self.ways.values())]


@asynccontextmanager
async def one_server(binary: Path) -> AsyncIterator[Servers]:
    with EmbeddedServer.start(binary=binary) as server:
        yield Servers([server], {})


@asynccontextmanager
async def three_servers(binary: Path) -> AsyncIterator[Servers]:
    listening = free_ports(SIZE)
    async with AsyncExitStack() as stack:
        links = {
            a: {
                b: await stack.enter_async_context(fault_proxy(f"nats://{HOST}:{listening[b]}"))
                for b in range(SIZE)
                if b != a
            }
            for a in range(SIZE)
        }
        dialled = [[link.port for link in links[a].values()] for a in range(SIZE)]
        # In a thread: the links that the servers need are served by this one.
        opening = cluster(Routes(listening, dialled), binary=binary)
        running: Cluster = await asyncio.to_thread(opening.__enter__)
        stack.push_async_callback(asyncio.to_thread, opening.__exit__, None, None, None)
        await running.until_ready()
        yield Servers(running.nodes, links)


@asynccontextmanager
async def staged(servers: Servers, cast: Cast, folder: Path, seed: int) -> AsyncIterator[Stage]:
    """Everything runs when this is entered, and nothing when it is left."""
    async with AsyncExitStack() as stack:
        await _provision(servers)
        ways: dict[str, Sequence[FaultProxy]] = {}
        for name in cast.names():
            opened = [fault_proxy(node.url) for node in servers.nodes]
            ways[name] = [await stack.enter_async_context(proxy) for proxy in opened]
        parts = [_play(name, folder, _url(way), seed) for name, way in ways.items()]
        for actor in parts:
            actor.start()
            stack.callback(actor.kill)
        yield Stage(servers, parts, ways)


def _play(name: str, folder: Path, url: str, seed: int) -> Actor:
    match Kind(name.partition("-")[0]):
        case Kind.DAEMON:
            return actors.daemon(name, folder, url)
        case Kind.WORKER:
            return actors.worker(name, folder, url)
        case Kind.PRODUCER:
            return actors.producer(name, folder, url, seed)


def _url(way: Sequence[FaultProxy]) -> str:
    return ",".join(address("app", proxy.port) for proxy in way)


async def _provision(servers: Servers) -> None:
    async with Service(CHAOS).connect(
        servers.url, workers=False, replicas=len(servers.nodes), connect_timeout=DEADLINE
    ):
        pass
