"""What every tool's handler does: note when it was entered, wait if it is told to, note the end.

Imported in the environments of all tools, by workers and by who enqueues.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final

from benchmarks.peers.moments import Moments
from benchmarks.peers.trial import Trial

TRIAL: Final = Trial.from_environment()
MOMENTS: Final = Moments(Path(TRIAL.moments), TRIAL.jobs)


def work(number: int, seconds: float) -> int:
    MOMENTS.enter(number, time.monotonic_ns())
    if seconds:
        time.sleep(seconds)
    MOMENTS.leave(number, time.monotonic_ns())
    return number


async def work_async(number: int, seconds: float) -> int:
    MOMENTS.enter(number, time.monotonic_ns())
    if seconds:
        await asyncio.sleep(seconds)
    MOMENTS.leave(number, time.monotonic_ns())
    return number
