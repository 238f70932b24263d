"""Carries a schedule of faults out, and takes every one of them back in the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from tests.chaos.faults import Injection
from tests.chaos.injecting import Acts, Injecting
from tests.chaos.process_faults import ProcessFaults
from tests.chaos.server_faults import ServerFaults
from tests.chaos.way_faults import WayFaults

_POLL_INTERVAL: Final = 0.1


async def carry_out(waves: Sequence[Sequence[Injection]], injecting: Injecting) -> None:
    """Returns when the last fault is over; a wave begins when the one before it is."""
    processes = ProcessFaults(injecting)
    acts = {
        **processes.acts(),
        **WayFaults(injecting).acts(),
        **ServerFaults(injecting).acts(),
    }
    for wave in waves:
        await _strike(wave, acts)
    injecting.is_over = True
    processes.restore()
    for way in injecting.stage.all_ways():
        way.thaw()
        way.admit()


async def _strike(wave: Sequence[Injection], acts: Acts) -> None:
    begun = time.monotonic()
    async with asyncio.TaskGroup() as striking:
        for injection in wave:
            await asyncio.sleep(max(0.0, begun + injection.at - time.monotonic()))
            striking.create_task(acts[injection.fault](injection))


async def keep_up(injecting: Injecting) -> None:
    """Starts processes that ended again, as a supervisor would."""
    while True:
        await asyncio.sleep(_POLL_INTERVAL)
        for actor in injecting.stage.actors:
            actor.keep_up()
