"""Worker presence in the log: one's own heartbeats, and whether somebody else's still come."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.topology import LOG
from trellis_jobs.errors import NotPermitted
from trellis_jobs.jetstream import api
from trellis_jobs.jetstream.connection import Connection, ConnectionLost, NoResponders
from trellis_jobs.jetstream.event_log import sequence_of
from trellis_jobs.model import subjects
from trellis_jobs.wire import headers as h
from trellis_jobs.wire import presence as wire

if TYPE_CHECKING:
    from trellis_jobs.contract.features import Features
    from trellis_jobs.model.presence import WorkerHeartbeat

INTERVAL: Final = timedelta(seconds=10)
# A heartbeat removes itself from the log after three intervals, so the log does not fill up
# and an instance without one is gone.
_INTERVALS_OF_LIFE: Final = 3
_SHORTEST_TTL: Final = 1
_PATIENCE: Final = 2.0


class Presence:
    def __init__(
        self, connection: Connection, features: Features, *, interval: timedelta = INTERVAL
    ) -> None:
        self.interval = interval
        self._connection = connection
        self._features = features

    async def beat(self, heartbeat: WorkerHeartbeat) -> None:
        subject = subjects.presence(heartbeat.service, heartbeat.job_type, heartbeat.instance)
        headers = None
        if self._features.message_ttl:
            lifetime = _INTERVALS_OF_LIFE * self.interval.total_seconds()
            headers = {h.TTL: f"{max(_SHORTEST_TTL, round(lifetime))}s"}
        await self._connection.publish(subject, wire.encode(heartbeat), headers=headers)

    async def is_gone(self, service: str, job_type: str, instance: str) -> bool:
        """True only when the log positively holds no heartbeat of that instance any more.

        Where nobody can tell, or may ask, it counts as present: only an error's wording depends
        on the answer.
        """
        if not self._features.message_ttl:
            return False
        subject = subjects.presence(service, job_type, instance)
        try:
            message = await api.newest(self._connection, LOG, subject, timeout=_PATIENCE)
        except (ConnectionLost, NoResponders, NotPermitted):
            return False
        return (message.headers or {}).get("Status") == "404"

    async def newest(self, service: str, job_type: str, instance: str) -> int | None:
        """The log sequence of the instance's newest heartbeat; 0: there is none any more.

        None where nobody can tell right now. A heartbeat that removes itself tells by its absence.
        """
        subject = subjects.presence(service, job_type, instance)
        try:
            message = await api.newest(self._connection, LOG, subject, timeout=_PATIENCE)
        except (ConnectionLost, NoResponders, NotPermitted):
            return None
        headers = message.headers or {}
        if headers.get("Status") == "404":
            return 0
        return sequence_of(message) if "Nats-Sequence" in headers else None
