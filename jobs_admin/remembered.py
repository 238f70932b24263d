"""A value that takes long to find, kept for a while, so that many who ask cost one search."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


class Remembered(Generic[T]):
    """`seconds`: for how long a value is kept. Requests at the same time share one search."""

    def __init__(
        self, find: Callable[[], Awaitable[T]], seconds: float, monotonic: Callable[[], float]
    ) -> None:
        self._find = find
        self._seconds = seconds
        self._monotonic = monotonic
        self._found: tuple[float, T] | None = None
        self._lock = asyncio.Lock()

    async def get(self) -> T:
        async with self._lock:
            if self._found is None or self._monotonic() - self._found[0] >= self._seconds:
                self._found = self._monotonic(), await self._find()
            return self._found[1]
