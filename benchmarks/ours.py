"""The runtime, through its public interface."""

from __future__ import annotations

import asyncio

from benchmarks.measure import Drained, Entries, Measured, Moments, Stopwatch, now
from benchmarks.workload import BenchJobs, Invoice, Receipt
from trellis_jobs import ActiveJob, Service


async def create_many(url: str, jobs: int) -> Measured:
    service = Service(BenchJobs)
    async with service.connect(url, workers=False):
        watch = Stopwatch()
        await service.jobs.invoice.create_many(Invoice(number=n) for n in range(jobs))
        return watch.stop(jobs)


async def create_one_by_one(url: str, jobs: int) -> Measured:
    service = Service(BenchJobs)
    async with service.connect(url, workers=False):
        watch = Stopwatch()
        for number in range(-jobs, 0):
            await service.jobs.invoice.create(Invoice(number=number))
        return watch.stop(jobs)


async def create_paced(url: str, jobs: int, pause: float) -> Moments:
    """One job at a time, with time to be picked up; returns when each was asked for."""
    service, moments = Service(BenchJobs), Moments()
    async with service.connect(url, workers=False):
        for number in range(jobs):
            moments[number] = now()
            await service.jobs.invoice.create(Invoice(number=number))
            await asyncio.sleep(pause)
    return moments


async def drain(url: str, jobs: int) -> Drained:
    """Work until `jobs` are done."""
    service, entries = Service(BenchJobs), Entries(jobs)

    @service.jobs.invoice.handle
    async def handle(job: ActiveJob[Invoice]) -> Receipt:
        entries.enter(job.payload.number)
        return Receipt(number=job.payload.number)

    async with service.connect(url):
        await entries.all_entered()
        await service.stop()
        return Drained(entries.stop(), entries.moments, {})
