"""How long a worker has been gone, on one's own clock: clocks of other machines decide nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from trellis_jobs.jetstream.log.presence import Presence
    from trellis_jobs.model.identity import JobAddress

# By then the server has handed the work to another, if it is there.
_ACK_WAITS: Final = 2
_MOST_REMEMBERED: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Sighting:
    """The heartbeat that was the newest at a look (0: none was there), and when that was first."""

    heartbeat: int
    since: float


class Absences:
    def __init__(self, presence: Presence, monotonic: Callable[[], float]) -> None:
        self._presence = presence
        self._monotonic = monotonic
        self._seen: dict[tuple[str, str, str], _Sighting] = {}

    async def is_lost(self, job: JobAddress, instance: str, ack_wait: timedelta) -> bool:
        """Whether whatever the worker had in its hands is beyond it."""
        gone_for = await self._seconds(job, instance)
        return gone_for >= _ACK_WAITS * ack_wait.total_seconds()

    async def _seconds(self, job: JobAddress, instance: str) -> float:
        """Since when there is no sign of the worker, in seconds; 0 while there is."""
        worker = (job.service, job.job_type, instance)
        newest = await self._presence.newest(*worker)
        now = self._monotonic()
        known = self._seen.get(worker)
        if newest is None or known is None or known.heartbeat != newest:
            if newest is not None:
                self._remember(worker, _Sighting(newest, now))
            return 0.0
        # A heartbeat that is there may be one that cannot remove itself.
        return max(0.0, now - known.since - (self._presence.lifetime if newest else 0.0))

    def _remember(self, worker: tuple[str, str, str], sighting: _Sighting) -> None:
        self._seen.pop(worker, None)
        self._seen[worker] = sighting
        if len(self._seen) > _MOST_REMEMBERED:
            del self._seen[next(iter(self._seen))]
