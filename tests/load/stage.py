"""A server, an admin runtime, workers on many connections, and two who stop reading."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.chaos import actors
from tests.chaos.actors import Actor, Kind, has_file_ready
from tests.support.fault_proxy import FaultProxy, fault_proxy
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.client.message import Message

# Of the workers' connections, those that stop reading during the burst.
SLOW: Final = 2


@dataclass
class Reader:
    """A client that subscribes to every event and does not read fast enough."""

    way: FaultProxy
    heard: int = 0

    def hear(self, _: Message) -> None:
        self.heard += 1


@dataclass
class Stage:
    server: EmbeddedServer
    folder: Path
    daemon: Actor
    workers: Sequence[Actor]
    ways: Sequence[FaultProxy] = field(default_factory=list)

    @property
    def actors(self) -> list[Actor]:
        return [self.daemon, *self.workers]

    @property
    def pids(self) -> dict[str, list[int]]:
        return {
            "worker": [worker.process.pid for worker in self.workers],
            "admin runtime": [self.daemon.process.pid],
            "server": [self.server.pid],
        }

    @property
    def go(self) -> Path:
        """Once it is there, the stuck handler goes on."""
        return self.folder / "go"

    @property
    def is_ready(self) -> bool:
        return all(actor.is_up for actor in self.actors)

    def freeze(self) -> None:
        for way in self.ways:
            way.freeze()

    def thaw(self) -> None:
        for way in self.ways:
            way.thaw()


@asynccontextmanager
async def staged(folder: Path, connections: int, processes: int) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        server = stack.enter_context(EmbeddedServer.start())
        slow_way = await stack.enter_async_context(fault_proxy(server.url))
        reader = Reader(await stack.enter_async_context(fault_proxy(server.url)))
        listening = await Connection.open(reader.way.url, name="reader")
        stack.push_async_callback(listening.close)
        await listening.subscribe("trellis.jobs.>", reader.hear)
        go = folder / "go"
        counts = _shares(connections - SLOW, processes)
        workers = [
            _worker(f"worker-{number}", folder, server.url, go, count)
            for number, count in enumerate(counts)
        ]
        workers.append(_worker("slow", folder, slow_way.url, go, SLOW))
        made = Stage(
            server,
            folder,
            actors.daemon("admin", folder, server.url),
            workers,
            [slow_way, reader.way],
        )
        for actor in made.actors:
            actor.start()
            stack.callback(actor.kill)
        yield made


def _shares(count: int, parts: int) -> list[int]:
    return [count // parts + (number < count % parts) for number in range(parts)]


def _worker(name: str, home: Path, url: str, go: Path, connections: int) -> Actor:
    def command(folder: Path) -> Sequence[str]:
        return ("-m", "tests.load.worker", url, str(folder), str(go), str(connections))

    return Actor(Kind.WORKER, name, home / name, command, has_file_ready)
