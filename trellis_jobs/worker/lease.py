"""Keep the leases of running attempts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.worker.running_job import RunningJob
    from trellis_jobs.worker.tools import Tools

RENEWALS_PER_LEASE: Final = 3
LOOKS_PER_RENEWAL: Final = 2


async def keep_leases(running: Mapping[str, RunningJob], tools: Tools) -> None:
    """One loop for all attempts of a queue: a job that ends quickly never costs a timer."""
    due = tools.ack_wait / RENEWALS_PER_LEASE
    while True:
        await asyncio.sleep(due / LOOKS_PER_RENEWAL)
        now = tools.surroundings.uptime()
        for attempt in list(running.values()):
            if now - attempt.renewed_at >= due:
                tools.background.spawn(attempt.renew())
