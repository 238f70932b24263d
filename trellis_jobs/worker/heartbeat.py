"""Tell, per queue, that this worker is here; a failure to tell changes nothing."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Signs:
    """The signs of life of one worker process."""

    service: str
    instance: str
    workers: Sequence[QueueWorker]
    presence: Presence
    surroundings: Surroundings

    async def keep_giving(self) -> None:
        while True:
            await self._give(stopping=False)
            await asyncio.sleep(self.presence.interval.total_seconds())

    async def take_leave(self) -> None:
        """The last: from now on nobody waits for this worker."""
        await self._give(stopping=True)

    async def _give(self, *, stopping: bool) -> None:
        for worker in self.workers:
            beat = WorkerHeartbeat(
                service=self.service,
                job_type=worker.handler.queue.name,
                instance=self.instance,
                at=self.surroundings.now(),
                concurrency=worker.concurrency,
                version=_version(),
                stopping=stopping,
            )
            try:
                await self.presence.beat(beat)
            except ConnectionLost as error:
                log.warning("a heartbeat was not sent", extra={"error": str(error)})


def _version() -> str | None:
    try:
        return version("trellis-jobs")
    except PackageNotFoundError:
        return None
