"""Notice attempts whose lease lapsed, and ask the log whether they are still ours."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from trellis_jobs.jetstream.lease_keeper import RENEWALS_PER_LEASE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.worker.running_job import RunningJob
    from trellis_jobs.worker.tools import Tools


async def watch_leases(running: Mapping[str, RunningJob], tools: Tools) -> None:
    """One loop for all attempts of a queue: a job that ends quickly never costs a timer."""
    while True:
        await asyncio.sleep(tools.ack_wait / RENEWALS_PER_LEASE)
        now = tools.surroundings.uptime()
        for attempt in list(running.values()):
            if attempt.lease.has_lapsed(now):
                tools.background.spawn(attempt.verify())
