"""Services for the command to find."""

from __future__ import annotations

import asyncio
import time

from trellis_jobs import ActiveJob, Jobs, Service, job


class ShopJobs(Jobs, service="shop"):
    greet = job(str, str, ack_wait=1)
    nap = job(float, ack_wait=1)
    shrug = job(str, ack_wait=1)
    unhandled = job(str)


service = Service(ShopJobs)
silent = Service(ShopJobs)
price = 42


@service.jobs.greet.handle
async def greet(job: ActiveJob[str]) -> str:
    return f"hello {job.payload}"


@service.jobs.nap.handle
async def nap(job: ActiveJob[float]) -> None:
    if job.payload < 0:
        raise ValueError("a nap cannot be negative")
    await asyncio.sleep(job.payload)


@service.jobs.shrug.handle
async def shrug(job: ActiveJob[str]) -> None:
    """Will not be told: its payload says in which way."""
    while job.payload == "swallows cancellation":
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue
    await asyncio.to_thread(time.sleep, 60)
