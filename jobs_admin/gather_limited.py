"""Runs many small tasks with limited concurrency."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

T = TypeVar("T")
R = TypeVar("R")

MAX_CONCURRENT: Final = 16


async def gather_limited(work: Callable[[T], Awaitable[R]], items: Sequence[T]) -> list[R]:
    """Return the results in order. Every item is tried before the first error is raised."""
    free = asyncio.Semaphore(MAX_CONCURRENT)

    async def one(item: T) -> R:
        async with free:
            return await work(item)

    done = await asyncio.gather(*map(one, items), return_exceptions=True)
    for outcome in done:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in done if not isinstance(outcome, BaseException)]
