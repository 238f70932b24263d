"""Reads that many open pages need at the same time, made once for all of them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

# An open page reads again at most about once per second.
A_MOMENT: Final = 1.0
_MANY: Final = 100


@dataclass(slots=True)
class _Read:
    """`value` is as of `min_seq` at least, was read at `at`, and may be used for `seconds`."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    value: Any = None
    min_seq: int = -1
    at: float = 0.0
    seconds: float = A_MOMENT


class SharedReads:
    """What viewers read is the same for all of them, so that pages may share it."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._reads: dict[str, _Read] = {}

    def __len__(self) -> int:
        return len(self._reads)

    async def get(
        self,
        name: str,
        fetch: Callable[[], Awaitable[T]],
        *,
        min_seq: int = 0,
        seconds: float = A_MOMENT,
    ) -> T:
        """The value of this name if it is new enough, and else a new one."""
        if len(self._reads) > _MANY:
            self._forget_old()
        read = self._reads.setdefault(name, _Read(seconds=seconds))
        async with read.lock:
            is_new = self._monotonic() - read.at < seconds
            if read.min_seq < min_seq or not is_new:
                value = await fetch()
                read.value, read.min_seq, read.at = value, min_seq, self._monotonic()
            found: T = read.value
            return found

    def _forget_old(self) -> None:
        now = self._monotonic()
        old = [
            name
            for name, read in self._reads.items()
            if now - read.at >= read.seconds and not read.lock.locked()
        ]
        for name in old:
            del self._reads[name]
