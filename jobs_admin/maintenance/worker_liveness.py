"""Decides whether a worker is gone, by this process's own clock only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trellis_jobs.model.bounded_dict import BoundedDict

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from trellis_jobs.jetstream.log.presence import Presence
    from trellis_jobs.model.identity import JobAddress

# After this many ack waits the server has redelivered the work message, if there is one.
_ACK_WAITS: Final = 2
_MAX_REMEMBERED: Final = 10_000


@dataclass(frozen=True, slots=True)
class _SeenHeartbeat:
    """The sequence of the newest heartbeat (0 for none), and since when it has been the newest."""

    heartbeat: int
    since: float


class WorkerLiveness:
    def __init__(self, presence: Presence, monotonic: Callable[[], float]) -> None:
        self._presence = presence
        self._monotonic = monotonic
        self._seen: BoundedDict[tuple[str, str, str], _SeenHeartbeat] = BoundedDict(_MAX_REMEMBERED)

    async def is_lost(self, job: JobAddress, instance: str, ack_wait: timedelta) -> bool:
        """Whether the worker has been gone for so long that its attempts are lost."""
        gone_for = await self._seconds(job, instance)
        return gone_for >= _ACK_WAITS * ack_wait.total_seconds()

    async def _seconds(self, job: JobAddress, instance: str) -> float:
        """For how many seconds the worker has sent no heartbeat; 0 while it does."""
        worker = (job.service, job.job_type, instance)
        newest = await self._presence.newest(*worker)
        now = self._monotonic()
        known = self._seen.get(worker)
        if newest is None or known is None or known.heartbeat != newest:
            if newest is not None:
                self._seen[worker] = _SeenHeartbeat(newest, now)
            return 0.0
        # An old server does not expire heartbeats, so the newest one may outlive its worker.
        return max(0.0, now - known.since - (self._presence.lifetime if newest else 0.0))
