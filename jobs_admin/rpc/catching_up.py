"""Answers that are at least as new as what was asked for (design D17)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from jobs_admin.rpc.faults import Fault

if TYPE_CHECKING:
    from jobs_admin.projection.projector import Projector

PATIENCE: Final = 5.0


async def caught_up(projector: Projector, sequence: int) -> None:
    """Returns once the projection has taken in the log up to there."""
    try:
        async with asyncio.timeout(PATIENCE):
            await projector.reached(sequence)
    except TimeoutError:
        raise Fault(
            f"the projection is at {projector.position}, and was not at {sequence} after "
            f"{PATIENCE:g} s; if this was to change something, it is in the log",
            seq=sequence,
            position=projector.position,
        ) from None
