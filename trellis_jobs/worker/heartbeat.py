"""Tell, per queue, that this worker is here; a failure to tell changes nothing."""

from __future__ import annotations

import asyncio
import logging
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from trellis_jobs.jetstream.connection import ConnectionLost
from trellis_jobs.model.presence import WorkerHeartbeat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trellis_jobs.jetstream.presence import Presence
    from trellis_jobs.surroundings import Surroundings
    from trellis_jobs.worker.loop import QueueWorker

log = logging.getLogger(__name__)


async def keep_present(
    service: str,
    instance: str,
    workers: Sequence[QueueWorker],
    presence: Presence,
    surroundings: Surroundings,
) -> None:
    while True:
        for worker in workers:
            beat = WorkerHeartbeat(
                service=service,
                job_type=worker.handler.queue.name,
                instance=instance,
                at=surroundings.now(),
                concurrency=worker.concurrency,
                version=_version(),
            )
            try:
                await presence.beat(beat)
            except ConnectionLost as error:
                log.warning("a heartbeat was not sent", extra={"error": str(error)})
        await asyncio.sleep(presence.interval.total_seconds())


def _version() -> str | None:
    try:
        return version("trellis-jobs")
    except PackageNotFoundError:
        return None
