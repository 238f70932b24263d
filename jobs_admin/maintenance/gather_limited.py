"""Many small errands at once, none of which spoils the others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

T = TypeVar("T")
R = TypeVar("R")

AT_ONCE: Final = 16


async def abreast(work: Callable[[T], Awaitable[R]], items: Sequence[T]) -> list[R]:
    """What each came to. Every item has its turn before the first error is raised."""
    free = asyncio.Semaphore(AT_ONCE)

    async def one(item: T) -> R:
        async with free:
            return await work(item)

    done = await asyncio.gather(*map(one, items), return_exceptions=True)
    for outcome in done:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in done if not isinstance(outcome, BaseException)]
