"""Waits for a condition, with one deadline for all tests."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar, overload

T = TypeVar("T")

DEADLINE: Final = 60.0
_POLL_INTERVAL: Final = 0.01


@overload
async def until(
    fact: Callable[[], Coroutine[Any, Any, T | None]], what: str = "", *, deadline: float = DEADLINE
) -> T: ...
@overload
async def until(
    fact: Callable[[], T | None], what: str = "", *, deadline: float = DEADLINE
) -> T: ...
async def until(fact: Callable[[], Any], what: str = "", *, deadline: float = DEADLINE) -> Any:
    """The fact's first truthy value; fails the test when it does not come true."""
    end = time.monotonic() + deadline
    while True:
        found = fact()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < end, f"never came true: {what or fact}"
        await asyncio.sleep(_POLL_INTERVAL)
