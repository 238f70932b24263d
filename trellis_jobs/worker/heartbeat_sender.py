"""Sends a heartbeat for every queue of a worker. A single lost heartbeat does no harm."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import PackageNotFoundError
from typing import TYPE_CHECKING, Final

from trellis_jobs.environment import own_version
from trellis_jobs.jetstream.client.connection import ConnectionLost
from trellis_jobs.model.presence import WorkerHeartbeat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.log.presence import Presence
    from trellis_jobs.worker.identity import WorkerIdentity
    from trellis_jobs.worker.loop_watch import LoopWatch
    from trellis_jobs.worker.queue_worker import QueueWorker

log = logging.getLogger(__name__)

# Two intervals are a third of a lease. So when the server redelivers the jobs of a dead worker,
# its last heartbeat is already overdue.
BEATS_PER_LEASE: Final = 6


@dataclass(frozen=True, slots=True)
class HeartbeatSender:
    """Sends the heartbeats of one worker process. The lease thread (lease_keeper.py) calls it."""

    service: str
    identity: WorkerIdentity
    workers: Sequence[QueueWorker]
    presence: Presence
    environment: Environment
    loop_watch: LoopWatch
    shortest_lease: float

    @property
    def interval(self) -> float:
        """Seconds between heartbeats, short enough to tell a dead worker from a late one."""
        return min(self.presence.interval.total_seconds(), self.shortest_lease / BEATS_PER_LEASE)

    async def beat(self, connection: Connection, *, stopping: bool = False) -> None:
        presence = self.presence.over(connection)
        for worker in self.workers:
            beat = WorkerHeartbeat(
                service=self.service,
                job_type=worker.handler.queue.name,
                instance=self.identity.instance,
                at=self.environment.now(),
                concurrency=worker.concurrency,
                version=library_version(),
                stopping=stopping,
                interval=timedelta(seconds=self.interval),
                loop_blocked=self.loop_watch.longest_block(),
                contract=worker.contract,
                clock_ahead=self.environment.clock_ahead(),
            )
            try:
                await presence.beat(beat)
            except ConnectionLost as error:
                log.warning(
                    "could not send a heartbeat: %s",
                    error,
                    extra={"instance": self.identity.instance},
                )


def library_version() -> str | None:
    try:
        return own_version()
    except PackageNotFoundError:
        return None
