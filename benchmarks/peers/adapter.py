"""What a tool must offer to be measured, and what is the same for several of them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import islice
from typing import Final, NamedTuple

BATCH: Final = 1_000
LOOK: Final = 0.02


class Job(NamedTuple):
    number: int
    seconds: float


class Adapter(ABC):
    """The producing side of a tool. Tools that know no event loop block it: nothing else runs."""

    @abstractmethod
    def connected(self) -> AbstractAsyncContextManager[None]:
        """Connected, and everything that jobs need on the server made."""

    @abstractmethod
    async def enqueue(self, job: Job) -> None:
        """The everyday call."""

    @abstractmethod
    async def enqueue_many(self, jobs: Sequence[Job]) -> None:
        """The fastest way that keeps every job durable."""

    @abstractmethod
    async def pending(self) -> int:
        """Jobs that the server still holds for workers, running ones included where it tells."""

    async def prepare_drain(self) -> None:  # noqa: B027 (most need nothing)
        """What time would bring by itself between enqueueing and work; mostly nothing."""


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    while True:
        if await is_so():
            return
        await asyncio.sleep(LOOK)


def batches(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    rest = iter(jobs)
    while batch := list(islice(rest, BATCH)):
        yield batch


async def many_at_once(
    jobs: Sequence[Job], lanes: int, enqueue: Callable[[Job], Awaitable[object]]
) -> None:
    """For tools without a bulk call: this many calls in flight."""
    rest = iter(jobs)

    async def lane() -> None:
        for job in rest:
            await enqueue(job)

    await asyncio.gather(*(lane() for _ in range(lanes)))
