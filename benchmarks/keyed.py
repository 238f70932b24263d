"""The same job in two queues, one of which has keys: through the public interface."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from benchmarks.measure import Entries, Measured, Moments, Stopwatch, now
from benchmarks.stage import until_over, until_taken
from benchmarks.workload import CONCURRENCY, Invoice, Receipt
from trellis_jobs import ActiveJob, Jobs, KeyConcurrency, Queue, QueueDepth, Service, job

KEYED: Final = "bench-keyed"
DEPTH: Final = 1_000
WORK: Final = 0.01


class KeyedJobs(Jobs, service=KEYED):
    unkeyed = job(Invoice, Receipt, concurrency=CONCURRENCY)
    keyed = job(
        Invoice,
        Receipt,
        concurrency=CONCURRENCY,
        key=KeyConcurrency(["customer", "/customer"]),
        queue=QueueDepth(DEPTH),
    )


@dataclass(frozen=True, slots=True)
class Created:
    measured: Measured
    conflicts: int


@dataclass(frozen=True, slots=True)
class Worked:
    """In one of several processes: when handlers were entered and left."""

    entered: Moments
    left: Moments
    conflicts: int


async def create_many(url: str, jobs: int, keys: int) -> Created:
    """`keys` 0: in the queue that has none. The first job is in before the others are sent."""
    service = Service(KeyedJobs)
    async with service.connect(url, workers=False):
        queue, invoices, watch = _queue(service, keys), _invoices(jobs, keys), Stopwatch()
        await queue.create_many(invoices[:1])
        await queue.create_many(invoices[1:])
        return Created(watch.stop(jobs), _conflicts(service))


async def drain(url: str, jobs: int, keys: int) -> Measured:
    """Work until `jobs` are done."""
    service, entries = Service(KeyedJobs), Entries(jobs)

    @_queue(service, keys).handle
    async def handle(job: ActiveJob[Invoice]) -> Receipt:
        entries.enter(job.payload.number)
        return Receipt(number=job.payload.number)

    async with service.connect(url):
        await entries.all_entered()
        await service.stop()
        return entries.stop()


async def work(url: str, last: int) -> Worked:
    """One of several processes, until all of them are done."""
    service = Service(KeyedJobs)
    entered, left = Moments(), Moments()

    @service.jobs.keyed.handle
    async def handle(job: ActiveJob[Invoice]) -> Receipt:
        number = job.payload.number
        entered[number] = left[number] = now()
        return Receipt(number=number)

    async with service.connect(url):
        await until_over(url, last)
        return Worked(entered, left, _conflicts(service))


async def hand_over(url: str, last: int, jobs: int) -> Worked:
    """The same on one key, with a handler that takes a moment.

    Number 0 runs until all others have been delivered, to wait for it.
    """
    service = Service(KeyedJobs)
    entered, left = Moments(), Moments()

    @service.jobs.keyed.handle
    async def handle(job: ActiveJob[Invoice]) -> Receipt:
        number = job.payload.number
        entered[number] = now()
        if number == 0:
            await until_taken(url, service.name, "keyed", jobs)
        await asyncio.sleep(WORK)
        left[number] = now()
        return Receipt(number=number)

    async with service.connect(url):
        await until_over(url, last)
        return Worked(entered, left, _conflicts(service))


def _queue(service: Service[KeyedJobs], keys: int) -> Queue[Invoice, Receipt]:
    return service.jobs.keyed if keys else service.jobs.unkeyed


def _invoices(jobs: int, keys: int) -> list[Invoice]:
    return [Invoice(number=n, customer=f"customer {n % max(1, keys):012d}") for n in range(jobs)]


def _conflicts(service: Service[KeyedJobs]) -> int:
    """The one thing here that is not public: it is only of interest to who tunes the bucket."""
    return service._runtime.connected.keys["keyed"]._bucket.conflicts
