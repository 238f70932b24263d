"""Serialises the moves of one process on each key, and applies waiting moves in one write.

Moves that arrive while a write is in flight wait and are written together. So moves of one process
never conflict with each other, and a thousand of them need only a few writes.
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
class _PendingMove:
    empty: KeyState
    apply_move: Callable[[KeyState], Any]
    result: asyncio.Future[Any]


class WriteCoalescer:
    """`apply_moves` applies several moves to one key in order, with one write."""

    def __init__(self, apply_moves: Callable[[KeyState, Moves], Awaitable[list[Any]]]) -> None:
        self._apply_moves = apply_moves
        self._loop = asyncio.get_running_loop()
        self._pending: dict[KeyAddress, list[_PendingMove]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def apply(self, empty: KeyState, apply_move: Callable[[KeyState], Any]) -> Any:
        pending = self._pending.get(empty.address)
        if pending is not None:
            move = _PendingMove(empty, apply_move, self._loop.create_future())
            pending.append(move)
            return await move.result
        self._pending[empty.address] = []
        try:
            return (await self._apply_moves(empty, [apply_move]))[0]
        finally:
            self._apply_next(empty.address)

    def _apply_next(self, address: KeyAddress) -> None:
        """Use a separate task, because the first caller may be cancelled and the others not."""
        pending = [move for move in self._pending.pop(address) if not move.result.done()]
        if pending:
            self._pending[address] = []
            task = self._loop.create_task(self._apply_pending(address, pending))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _apply_pending(self, address: KeyAddress, pending: list[_PendingMove]) -> None:
        try:
            results = await self._apply_moves(
                pending[0].empty, [move.apply_move for move in pending]
            )
        except Exception as error:
            await self._fail(pending, error)
        else:
            for move, result in zip(pending, results, strict=True):
                if not move.result.done():
                    move.result.set_result(result)
        finally:
            self._apply_next(address)

    async def _fail(self, pending: list[_PendingMove], error: Exception) -> None:
        """Apply the moves one by one if one of them, or their number, may have caused the error."""
        may_be_one_move = isinstance(error, PayloadTooLarge) or not isinstance(error, JobsError)
        for move in pending:
            if may_be_one_move and len(pending) > 1:
                await self._apply_alone(move)
            elif not move.result.done():
                move.result.set_exception(error)

    async def _apply_alone(self, move: _PendingMove) -> None:
        try:
            [result] = await self._apply_moves(move.empty, [move.apply_move])
        except Exception as error:
            await self._fail([move], error)
        else:
            if not move.result.done():
                move.result.set_result(result)
