"""A worker process that is one of one or several, with handlers that wait a while or not at all."""

from __future__ import annotations

import asyncio
import os
from array import array
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from benchmarks.measure import Measured, Stopwatch, now
from benchmarks.peers.usage import resident_kilobytes
from benchmarks.stage import until_over, until_taken
from benchmarks.workload import CONCURRENCY, Invoice, Receipt
from trellis_jobs import ActiveJob, Jobs, Queue, Service, job

SHIFTS: Final = "bench-shifts"

LOOKS: Final = 10


class ShiftJobs(Jobs, service=SHIFTS):
    """Named after how many a process does at once."""

    few = job(Invoice, Receipt, concurrency=10)
    usual = job(Invoice, Receipt, concurrency=CONCURRENCY)
    many = job(Invoice, Receipt, concurrency=200)


NAMES: Final = {10: "few", CONCURRENCY: "usual", 200: "many"}


@dataclass(frozen=True, slots=True)
class Load:
    """`pause` is how long a handler waits, in seconds."""

    jobs: int
    at_once: int
    pause: float = 0.0
    begins_together: bool = False

    def title(self) -> str:
        waits = f"waits {self.pause * 1e3:.0f} ms" if self.pause else "returns at once"
        return f"{waits}, {self.at_once} at once"


@dataclass(slots=True)
class Shift:
    """What one process did: when its first handler was entered, and when each was left.

    `resident` is its memory, taken ten times at even distances.
    """

    began: float = 0.0
    left: list[float] = field(default_factory=list)
    cpu_seconds: float = 0.0
    resident: list[int] = field(default_factory=list)


async def create_many(url: str, jobs: int, at_once: int) -> Measured:
    service = Service(ShiftJobs)
    async with service.connect(url, workers=False):
        watch = Stopwatch()
        await _queue(service, at_once).create_many(Invoice(number=n) for n in range(jobs))
        return watch.stop(jobs)


async def work(url: str, last: int, load: Load, processes: int) -> Shift:
    """Until the work queue has had its message number `last`, and is empty.

    Beside others no handler goes on before all processes have as many jobs as they take.
    """
    service, shift, watch, gate = Service(ShiftJobs), Shift(), Stopwatch(), asyncio.Event()
    # All there from the beginning: memory that grows is the runtime's.
    left, done = array("d", bytes(8 * load.jobs)), count()

    @_queue(service, load.at_once).handle
    async def handle(job: ActiveJob[Invoice]) -> Receipt:
        await gate.wait()
        shift.began = shift.began or now()
        if load.pause:
            await asyncio.sleep(load.pause)
        number = next(done)
        if (number + 1) % max(1, load.jobs // LOOKS) == 0:
            shift.resident.append(1024 * resident_kilobytes(os.getpid()))
        left[number] = now()
        return Receipt(number=job.payload.number)

    async with service.connect(url):
        if load.begins_together:
            await until_taken(url, SHIFTS, NAMES[load.at_once], processes * load.at_once)
        gate.set()
        await until_over(url, last)
        shift.left = left[: next(done)].tolist()
        shift.cpu_seconds = watch.stop(load.jobs).cpu_seconds
        return shift


def _queue(service: Service[ShiftJobs], at_once: int) -> Queue[Invoice, Receipt]:
    found: Queue[Invoice, Receipt] = getattr(service.jobs, NAMES[at_once])
    return found
