"""The shop of the command line's tests, after changes of its contract."""

from __future__ import annotations

from trellis_jobs import ActiveJob, Jobs, Service, job


class ShopJobs(Jobs, service="shop"):
    """Fewer tries, another payload, a queue that is gone and one that is new."""

    greet = job(int, str, ack_wait=1, max_deliver=3)
    nap = job(float, ack_wait=1, concurrency=8)
    shrug = job(str, ack_wait=1)
    wave = job(str)


class LooserJobs(Jobs, service="shop"):
    greet = job(str, str, ack_wait=2)
    nap = job(float, ack_wait=1)
    shrug = job(str, ack_wait=1)
    unhandled = job(str)


service = Service(ShopJobs)
looser = Service(LooserJobs)


@service.jobs.greet.handle
async def greet(job: ActiveJob[int]) -> str:
    return f"hello number {job.payload}"
