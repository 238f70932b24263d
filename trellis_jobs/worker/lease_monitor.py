"""Finds running attempts that may have lost their delivery, their slot or their job."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from trellis_jobs.jetstream.work.lease_keeper import RENEWALS_PER_LEASE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.contract.key_policy import KeyPolicy
    from trellis_jobs.worker.running_job import RunningJob
    from trellis_jobs.worker.worker_context import WorkerContext

# A handler is stopped at most half a heartbeat interval after the lease of its slot has expired.
_CHECKS_PER_INTERVAL: Final = 2


async def watch_leases(
    running: Mapping[str, RunningJob], context: WorkerContext, key_policy: KeyPolicy | None
) -> None:
    """One loop for all attempts of a queue, so that a short job needs no timer."""
    interval = context.ack_wait / RENEWALS_PER_LEASE
    if key_policy is not None:
        interval = min(
            interval, key_policy.heartbeat_interval.total_seconds() / _CHECKS_PER_INTERVAL
        )
    while True:
        await asyncio.sleep(interval)
        now = context.environment.monotonic()
        for attempt in list(running.values()):
            attempt.check_slot(now)
            attempt.check_end_when_due(now)
            if attempt.lease.has_lapsed(now):
                attempt.handle_lapsed_lease()
