"""A service with a resource that records when it is opened and closed.

Run as a program it works until a signal, and prints what it recorded.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from tests.support.example_service import ExampleJobs, example_jobs
from trellis_jobs import ActiveJob, Resource, Service

SHOP: Final = example_jobs(
    "shop",
    str,
    str,
    pack={"concurrency": 4, "max_deliver": 2, "backoff": [0.05]},
    weigh={"max_deliver": 1},
)


@dataclass
class Database:
    name: str
    is_open: bool = True


@dataclass
class Shop:
    """`done` has every step in order; `broken` names what fails: open NAME, or close NAME."""

    broken: frozenset[str] = frozenset()
    done: list[str] = field(default_factory=list)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.service = Service(SHOP, grace=5)
        self.first: Resource[Database] = self.service.lifespan(self.open_first)
        self.second: Resource[Database] = self.service.lifespan(self.open_second)
        self.service.jobs.pack.handle(self.pack)
        self.service.jobs.weigh.handle(self.weigh)

    @asynccontextmanager
    async def open_first(self) -> AsyncIterator[Database]:
        async with self._opened("first") as database:
            yield database

    @asynccontextmanager
    async def open_second(self, service: Service[ExampleJobs[str, str]]) -> AsyncIterator[Database]:
        async with self._opened(f"second of {service.name}") as database:
            yield database

    @asynccontextmanager
    async def _opened(self, name: str) -> AsyncIterator[Database]:
        self._step(f"open {name}")
        database = Database(name)
        try:
            yield database
        finally:
            database.is_open = False
            self._step(f"close {name}")

    def _step(self, step: str) -> None:
        self.done.append(step)
        if step in self.broken:
            raise OSError(f"cannot {step}")

    async def pack(self, active: ActiveJob[str]) -> str:
        self.done.append(f"start {active.payload}")
        if active.payload == "wait":
            await self.go.wait()
        assert self.first.get().is_open
        self.done.append(f"end {active.payload}")
        return self.second.get().name

    def weigh(self, _: ActiveJob[str]) -> str:
        return self.first.get().name


async def _main(url: str) -> None:
    shop = Shop()
    async with shop.service.connect(url):
        ending = asyncio.create_task(shop.service.wait())
        await asyncio.sleep(0)  # now it listens to signals
        print("ready", flush=True)
        await ending
    print(*shop.done, sep="\n", flush=True)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
