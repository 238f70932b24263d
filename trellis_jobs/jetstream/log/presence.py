"""Worker presence in the log: sends heartbeats, and reads those of other workers."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.topology import LOG
from trellis_jobs.errors import JobsError, NotPermitted
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import Connection, ConnectionLost, NoResponders
from trellis_jobs.jetstream.client.server_info import server_time
from trellis_jobs.model import subjects
from trellis_jobs.model.presence import (
    WorkerHeartbeat,
    countable_silence,
    death_reason,
    proves_death,
)
from trellis_jobs.model.subjects import PresenceSubject
from trellis_jobs.wire import headers as h
from trellis_jobs.wire import presence as wire

if TYPE_CHECKING:
    from trellis_jobs.contract.features import Features
    from trellis_jobs.jetstream.client.message import Message

INTERVAL: Final = timedelta(seconds=5)
# A heartbeat expires after six intervals, so that the log does not fill up and an instance without
# a heartbeat is gone. The last one has the same TTL, so that it does not expire before the others.
_TTL_INTERVALS: Final = 6
_NO_HEARTBEAT: Final = "died: the log holds no heartbeat of it"
_MIN_TTL_SECONDS: Final = 1
_REQUEST_TIMEOUT: Final = 2.0


class Presence:
    def __init__(
        self, connection: Connection, features: Features, *, interval: timedelta = INTERVAL
    ) -> None:
        self.interval = interval
        self._connection = connection
        self._features = features
        self._reconnected_at: float | None = None
        connection.on_reconnect(self._note_reconnect)

    @property
    def lifetime(self) -> float:
        """How long a heartbeat is valid, in seconds."""
        return _TTL_INTERVALS * self.interval.total_seconds()

    def over(self, connection: Connection) -> Presence:
        """Returns the same presence over another connection."""
        return Presence(connection, self._features, interval=self.interval)

    async def beat(self, heartbeat: WorkerHeartbeat) -> None:
        subject = subjects.presence(heartbeat.service, heartbeat.job_type, heartbeat.instance)
        headers = None
        if self._features.message_ttl:
            headers = {h.TTL: f"{max(_MIN_TTL_SECONDS, round(self.lifetime))}s"}
        await self._connection.publish(subject, wire.encode(heartbeat), headers=headers)

    async def death_reason(self, worker: PresenceSubject, consumer: str) -> str | None:
        """Returns why the worker counts as dead, or None while it counts as alive.

        The age of its newest heartbeat is measured by the server's clock alone, which the info of
        the queue's `consumer` contains. After an outage of this connection, only the silence since
        its end counts. A worker whose heartbeats cannot be read counts as alive:
        only the wording of an error depends on it.
        """
        message = await self._newest(worker)
        if message is None:
            return None
        if _is_not_found(message):
            # If heartbeats do not expire, a worker without one never sent any.
            return _NO_HEARTBEAT if self._features.message_ttl and self._is_proof() else None
        beat = wire.decode(message.data, expected=worker)
        stored_at = (message.headers or {}).get("Nats-Time-Stamp")
        if isinstance(beat, str) or stored_at is None:
            return None
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT):
                now = await server_time(self._connection, consumer)
        except (JobsError, ConnectionLost, TimeoutError):
            return None
        return death_reason(beat, now - datetime.fromisoformat(stored_at), self._connected_for())

    def _note_reconnect(self) -> None:
        self._reconnected_at = asyncio.get_running_loop().time()

    def _connected_for(self) -> timedelta | None:
        """Returns how long ago the connection was restored, or None if it was never lost."""
        if self._reconnected_at is None:
            return None
        return timedelta(seconds=asyncio.get_running_loop().time() - self._reconnected_at)

    def _is_proof(self) -> bool:
        """Whether a missing heartbeat proves a death: an outage lets all heartbeats expire."""
        silence = countable_silence(timedelta.max, self._connected_for())
        return proves_death(silence, self.interval)

    async def newest(self, service: str, job_type: str, instance: str) -> int | None:
        """Returns the sequence of the instance's newest heartbeat, or 0 if it has none or stopped.

        Returns None when the log cannot be read right now.
        """
        worker = PresenceSubject(service, job_type, instance)
        message = await self._newest(worker)
        if message is None:
            return None
        if _is_not_found(message) or _is_stopping(message, worker):
            return 0
        return api.sequence_of(message) if "Nats-Sequence" in (message.headers or {}) else None

    async def newest_at(self, service: str, job_type: str, instance: str) -> datetime | None:
        """Returns when the server stored the instance's newest heartbeat, if there is one."""
        message = await self._newest(PresenceSubject(service, job_type, instance))
        stored_at = None if message is None else (message.headers or {}).get("Nats-Time-Stamp")
        return None if stored_at is None else datetime.fromisoformat(stored_at)

    async def _newest(self, worker: PresenceSubject) -> Message | None:
        subject = subjects.presence(worker.service, worker.job_type, worker.instance)
        try:
            return await api.newest(self._connection, LOG, subject, timeout=_REQUEST_TIMEOUT)
        except (ConnectionLost, NoResponders, NotPermitted):
            return None


def _is_not_found(message: Message) -> bool:
    return (message.headers or {}).get("Status") == "404"


def _is_stopping(message: Message, worker: PresenceSubject) -> bool:
    beat = wire.decode(message.data, expected=worker)
    return not isinstance(beat, str) and beat.stopping
