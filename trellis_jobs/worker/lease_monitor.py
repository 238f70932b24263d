"""Notice attempts whose delivery, slot or job is no longer theirs for certain."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from trellis_jobs.jetstream.work.lease_keeper import RENEWALS_PER_LEASE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.contract.key_policy import KeyPolicy
    from trellis_jobs.worker.running_job import RunningJob
    from trellis_jobs.worker.worker_context import WorkerContext

# A handler is stopped within half an interval of the moment at which its slot becomes unsafe.
_LOOKS_PER_INTERVAL: Final = 2


async def watch_leases(
    running: Mapping[str, RunningJob], tools: WorkerContext, key_policy: KeyPolicy | None
) -> None:
    """One loop for all attempts of a queue: a job that ends quickly never costs a timer."""
    look = tools.ack_wait / RENEWALS_PER_LEASE
    if key_policy is not None:
        look = min(look, key_policy.heartbeat_interval.total_seconds() / _LOOKS_PER_INTERVAL)
    while True:
        await asyncio.sleep(look)
        now = tools.environment.monotonic()
        for attempt in list(running.values()):
            attempt.check_slot(now)
            attempt.look_now_and_then(now)
            if attempt.lease.has_lapsed(now):
                attempt.lapsed()
