"""A server that is looked at from outside: its memory, its disk, its CPU, its restarts."""

from __future__ import annotations

import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.peers.usage import resident_kilobytes
from benchmarks.stage import connected
from benchmarks.traffic import LOOK, MONITORED, Traffic, announced, fetch
from trellis_jobs.contract.topology import Topology
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.jetstream.setup.provision import provision

OBSERVED: Final = f"{MONITORED}\nprof_port: -1\n"
_COLLECTED: Final = "/debug/pprof/heap?gc=1&debug=1"
_HEAP: Final = re.compile(rb"# HeapAlloc = (\d+)")
_DISK_BLOCK: Final = 512


@dataclass(frozen=True, slots=True)
class Weight:
    """In bytes. `heap` is what the server has to keep: what is left after a collection.

    `resident` is what the machine gives it, `disk` what each stream takes there.
    """

    heap: int
    resident: int
    disk: dict[str, int]

    @property
    def on_disk(self) -> int:
        return sum(self.disk.values())


@dataclass(frozen=True, slots=True)
class Restart:
    """`seconds` from the start of the process until it answers, everything recovered."""

    seconds: float
    weight: Weight


def observed_server(config: str = "") -> EmbeddedServer:
    return EmbeddedServer.start(config=OBSERVED + config)


def version() -> str:
    with observed_server() as server:
        return Traffic(server.store).server_version()


def weigh(server: EmbeddedServer) -> Weight:
    """The resident size is taken before the collection, which is none of the server's own doing."""
    size = 1024 * resident_kilobytes(server.pid)
    [heap] = _HEAP.findall(fetch(announced(server.store, "profile"), _COLLECTED))
    streams = server.store / "jetstream" / "$G" / "streams"
    return Weight(int(heap), size, {one.name: _disk(one) for one in sorted(streams.iterdir())})


def restart(server: EmbeddedServer) -> Restart:
    """After a shutdown in which it could write down what it knows."""
    process = Path(f"/proc/{server.pid}")
    os.kill(server.pid, signal.SIGTERM)
    while process.exists():
        time.sleep(LOOK)
    return _again(server)


def recover(server: EmbeddedServer) -> Restart:
    """After a kill: what it has to know it must read from the log itself."""
    server.kill()
    return _again(server)


async def prepare(url: str, replicas: int | None = None) -> None:
    """The streams exist, with this many replicas."""
    async with connected(url) as connection:
        await provision(connection, Topology(await detect_features(connection), replicas))


def _again(server: EmbeddedServer) -> Restart:
    began = time.monotonic()
    server.restart()
    return Restart(time.monotonic() - began, weigh(server))


def _disk(folder: Path) -> int:
    return sum(file.stat().st_blocks for file in folder.rglob("*")) * _DISK_BLOCK
