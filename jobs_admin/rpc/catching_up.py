"""Answers that are at least as new as what was asked for (design D17)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from jobs_admin.rpc.faults import Fault, Invalid, Issue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PATIENCE: Final = 5.0


class Progress(Protocol):
    """How far the projection is: one's own projector, or another's as its file says."""

    @property
    def position(self) -> int: ...

    async def reached(self, sequence: int) -> None:
        """Returns once the projection has taken in everything up to there."""


@dataclass(frozen=True, slots=True)
class BoundedProgress:
    """Progress that nobody waits for beyond the log's end: what is not there will not come."""

    progress: Progress
    log_end: Callable[[], Awaitable[int]]

    @property
    def position(self) -> int:
        return self.progress.position

    async def reached(self, sequence: int) -> None:
        if sequence > self.position:
            end = await self.log_end()
            if sequence > end:
                problem = f"the log ends at {end}, so there is no {sequence} to wait for"
                raise Invalid(problem, [Issue("/minSeq", problem)])
        await self.progress.reached(sequence)


async def caught_up(progress: Progress, sequence: int) -> None:
    """Returns once the projection has taken in the log up to there."""
    try:
        async with asyncio.timeout(PATIENCE):
            await progress.reached(sequence)
    except TimeoutError:
        raise Fault(
            f"the projection is at {progress.position}, and was not at {sequence} after "
            f"{PATIENCE:g} s; if this was to change something, it is in the log",
            seq=sequence,
            position=progress.position,
        ) from None
