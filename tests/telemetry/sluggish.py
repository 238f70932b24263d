"""A service whose handler blocks the event loop."""

from __future__ import annotations

import time

from trellis_jobs import ActiveJob, Jobs, Service, job


class SluggishJobs(Jobs, service="sluggish"):
    block = job(float, ack_wait=5)


service = Service(SluggishJobs)


@service.jobs.block.handle
async def block(job: ActiveJob[float]) -> None:
    time.sleep(job.payload)  # noqa: ASYNC251 - that is what it is for
