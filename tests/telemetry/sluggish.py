"""A service whose handler blocks the event loop."""

from __future__ import annotations

import time
from typing import Final

from tests.support.example_service import example_jobs
from trellis_jobs import ActiveJob, Service

SLUGGISH: Final = example_jobs(
    "sluggish",
    float,
    type(None),
    block={"ack_wait": 5},
)


service = Service(SLUGGISH)


@service.jobs.block.handle
async def block(job: ActiveJob[float]) -> None:
    time.sleep(job.payload)  # noqa: ASYNC251 - that is what it is for
