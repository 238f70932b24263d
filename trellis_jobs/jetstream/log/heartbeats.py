"""The newest heartbeat of every worker in the log that has not stopped."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.topology import LOG
from trellis_jobs.jetstream.client import api, stored_message
from trellis_jobs.model import subjects
from trellis_jobs.model.subjects import PresenceSubject
from trellis_jobs.wire import presence as wire

if TYPE_CHECKING:
    from datetime import datetime

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.model.presence import WorkerHeartbeat

_MAX_CONCURRENT_READS: Final = 32


@dataclass(frozen=True, slots=True)
class ReceivedHeartbeat:
    """`at` is the server's time; the heartbeat itself has the time of the worker's clock."""

    beat: WorkerHeartbeat
    at: datetime


async def newest_heartbeats(connection: Connection) -> list[ReceivedHeartbeat]:
    """Returns them by service, type and instance.

    On servers where heartbeats do not expire (2.10), old ones are included.
    """
    slots = asyncio.Semaphore(_MAX_CONCURRENT_READS)

    async def read(subject: str) -> ReceivedHeartbeat | None:
        async with slots:
            return await _newest(connection, subject)

    found = await asyncio.gather(*map(read, await _subjects(connection)))
    return [received for received in found if received is not None]


async def _subjects(connection: Connection) -> list[str]:
    query = {"subjects_filter": subjects.ALL_PRESENCE}
    info = await api.request(connection, f"STREAM.INFO.{LOG}", query)
    return sorted(info["state"].get("subjects") or ())


async def _newest(connection: Connection, subject: str) -> ReceivedHeartbeat | None:
    worker = subjects.parse(subject)
    if not isinstance(worker, PresenceSubject):
        return None
    stored = await stored_message.newest(connection, LOG, subject)
    if stored is None:
        return None
    beat = wire.decode(stored.data, expected=worker)
    return (
        None
        if isinstance(beat, str) or beat.stopping
        else ReceivedHeartbeat(beat, stored.stored_at)
    )
