"""How the admin runtime yields the CPU to the work on the same machine."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_SCHEDULE: Final = Path("/proc/thread-self/schedstat")

# A thread that waited for a CPU this long, per second that it ran, competes with other work.
_CONTENDED: Final = 0.2
# Seconds of rest for each second of CPU time: while others want the CPU, a sixteenth of one core.
_REST: Final = 15.0
# A projection that has been behind for this long takes its share of the CPU again.
MAX_SECONDS_BEHIND: Final = 60.0


def lower_priority(nice: int) -> None:
    """Lower the priority of the calling thread. Only Linux can do that for one thread."""
    if nice and sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)


@dataclass(frozen=True, slots=True)
class CpuTime:
    """Seconds that a thread ran, and seconds that it was ready to run but had no CPU."""

    ran: float = 0.0
    waited: float = 0.0

    @property
    def is_contended(self) -> bool:
        return self.waited > self.ran * _CONTENDED


def measure_cpu(work: Callable[[], T]) -> tuple[T, CpuTime]:
    """Do the work in this thread. Where the kernel does not count waiting, it counts as none."""
    before = _thread_schedule()
    done = work()
    after = _thread_schedule()
    return done, CpuTime(after.ran - before.ran, after.waited - before.waited)


def _thread_schedule() -> CpuTime:
    try:
        ran, waited, _ = _SCHEDULE.read_bytes().split()
    except OSError:
        return CpuTime()
    return CpuTime(int(ran) / 1e9, int(waited) / 1e9)


class Throttle:
    """Makes a projection rest while other processes compete for the CPU.

    It rests after each batch in proportion to the CPU time of that batch. It does not rest while a
    request waits for the projection, nor once the projection has been behind for a minute.
    `nice` is the niceness of the thread that writes the file; with 0 the projection never rests.
    """

    def __init__(self, nice: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self.nice = nice
        self._clock = clock
        self._behind_since: float | None = None
        self._waiting = 0
        self._is_awaited = asyncio.Event()

    def rest_after(self, used: CpuTime, *, pending: int) -> float:
        """Seconds to rest after a batch that left `pending` messages unread."""
        now = self._clock()
        if pending == 0 or self._behind_since is None:
            self._behind_since = now
        too_late = now - self._behind_since > MAX_SECONDS_BEHIND
        if not self.nice or too_late or self._waiting or not used.is_contended:
            return 0.0
        return used.ran * _REST

    async def rest(self, used: CpuTime, *, pending: int) -> None:
        seconds = self.rest_after(used, pending=pending)
        if seconds:
            try:
                async with asyncio.timeout(seconds):
                    await self._is_awaited.wait()
            except TimeoutError:
                return

    def __enter__(self) -> None:
        """Do not rest within the block, because a request waits for the projection."""
        self._waiting += 1
        self._is_awaited.set()

    def __exit__(self, *_: object) -> None:
        self._waiting -= 1
        if not self._waiting:
            self._is_awaited.clear()
