"""The moves of one process on its keys, key by key: one at a time, and those that wait together.

While one move is on its way to the server others may be wished for. They never refuse each other,
and a thousand of them cost a few writes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trellis_jobs.errors import JobsError, PayloadTooLarge

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from trellis_jobs.model.keys.state import KeyAddress, KeyState

    Moves = Sequence[Callable[[KeyState], Any]]


@dataclass(slots=True)
class _Wish:
    empty: KeyState
    move: Callable[[KeyState], Any]
    granted: asyncio.Future[Any]


class WriteCoalescer:
    """`make` does all of some moves, in their order, in one step."""

    def __init__(self, make: Callable[[KeyState, Moves], Awaitable[list[Any]]]) -> None:
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._wishes: dict[KeyAddress, list[_Wish]] = {}
        self._granting: set[asyncio.Task[None]] = set()

    async def take(self, empty: KeyState, move: Callable[[KeyState], Any]) -> Any:
        wishes = self._wishes.get(empty.address)
        if wishes is not None:
            wish = _Wish(empty, move, self._loop.create_future())
            wishes.append(wish)
            return await wish.granted
        self._wishes[empty.address] = []
        try:
            return (await self._make(empty, [move]))[0]
        finally:
            self._grant_next(empty.address)

    def _grant_next(self, address: KeyAddress) -> None:
        """In a task of its own: whoever was first may be cancelled, and the others not."""
        wishes = [wish for wish in self._wishes.pop(address) if not wish.granted.done()]
        if wishes:
            self._wishes[address] = []
            task = self._loop.create_task(self._grant(address, wishes))
            self._granting.add(task)
            task.add_done_callback(self._granting.discard)

    async def _grant(self, address: KeyAddress, wishes: list[_Wish]) -> None:
        try:
            made = await self._make(wishes[0].empty, [wish.move for wish in wishes])
        except Exception as error:
            await self._deny(wishes, error)
        else:
            for wish, moved in zip(wishes, made, strict=True):
                if not wish.granted.done():
                    wish.granted.set_result(moved)
        finally:
            self._grant_next(address)

    async def _deny(self, wishes: list[_Wish], error: Exception) -> None:
        """What is wrong with one of them, or with all at once, is no fault of the others."""
        is_of_one = isinstance(error, PayloadTooLarge) or not isinstance(error, JobsError)
        for wish in wishes:
            if is_of_one and len(wishes) > 1:
                await self._grant_alone(wish)
            elif not wish.granted.done():
                wish.granted.set_exception(error)

    async def _grant_alone(self, wish: _Wish) -> None:
        try:
            [moved] = await self._make(wish.empty, [wish.move])
        except Exception as error:
            await self._deny([wish], error)
        else:
            if not wish.granted.done():
                wish.granted.set_result(moved)
