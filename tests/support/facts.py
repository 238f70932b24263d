"""Wait for facts, never for time: one deadline, in one place."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")

DEADLINE: Final = 20.0
_LOOK: Final = 0.01


async def until(fact: Callable[[], Awaitable[T] | T], what: str = "") -> T:
    """The fact's first truthy value; fails the test when it does not come true."""
    deadline = time.monotonic() + DEADLINE
    while True:
        value = fact()
        found = await value if isinstance(value, Awaitable) else value
        if found:
            return found
        assert time.monotonic() < deadline, f"never came true: {what or fact}"
        await asyncio.sleep(_LOOK)
