"""Runs in a tool's own environment: does what it is told on stdin, says on stdout what it took.

python -m benchmarks.peers.producer benchmarks.peers.adapters.arq_queue
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, Final

from benchmarks.peers.adapter import Adapter, Job, until
from benchmarks.peers.handlers import MOMENTS, TRIAL
from benchmarks.peers.orders import Done, Order

PACE: Final = 0.015


class Producer:
    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._jobs = [Job(number, TRIAL.seconds) for number in range(TRIAL.jobs)]
        self._doing: dict[Order, Callable[[], Awaitable[None]]] = {
            Order.WARM_UP: self._warm_up,
            Order.ONE_BY_ONE: self._one_by_one,
            Order.MANY: self._many,
            Order.PACED: self._paced,
            Order.PREPARE_DRAIN: adapter.prepare_drain,
            Order.SETTLE: self._settle,
        }

    async def obey(self) -> None:
        """Until stdin ends."""
        async with self._adapter.connected():
            while order := await asyncio.to_thread(sys.stdin.readline):
                began, cpu = time.monotonic_ns(), time.process_time()
                await self._doing[Order(order.strip())]()
                done = Done(began, time.monotonic_ns(), time.process_time() - cpu)
                print(json.dumps(asdict(done)), flush=True)

    async def _warm_up(self) -> None:
        await self._adapter.enqueue(Job(TRIAL.jobs, 0))

    async def _one_by_one(self) -> None:
        for job in self._jobs:
            await self._adapter.enqueue(job)

    async def _many(self) -> None:
        await self._adapter.enqueue_many(self._jobs)

    async def _paced(self) -> None:
        due = time.monotonic()
        for job in self._jobs:
            due += PACE
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            MOMENTS.ask(job.number, time.monotonic_ns())
            await self._adapter.enqueue(job)

    async def _settle(self) -> None:
        async def nothing_is_left() -> bool:
            return await self._adapter.pending() == 0

        await until(nothing_is_left)


def main() -> None:
    module: Any = importlib.import_module(sys.argv[1])
    loop_factory = _uvloop()
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(Producer(module.ADAPTER).obey())


def _uvloop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """For the tools that have it in their environment, because their workers use it too."""
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        return None
    return uvloop.new_event_loop


if __name__ == "__main__":
    main()
