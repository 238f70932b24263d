"""The newest heartbeat of every worker that the log holds one of, and that did not leave."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.topology import LOG
from trellis_jobs.errors import InfrastructureMissing, RequestRefused
from trellis_jobs.jetstream.client import api, stored_message
from trellis_jobs.model import subjects
from trellis_jobs.model.subjects import PresenceSubject
from trellis_jobs.wire import presence as wire

if TYPE_CHECKING:
    from datetime import datetime

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.model.presence import WorkerHeartbeat

_AT_ONCE: Final = 32


@dataclass(frozen=True, slots=True)
class Heard:
    """`at` is the server's time; what the worker's clock said is in the heartbeat."""

    beat: WorkerHeartbeat
    at: datetime


async def newest_heartbeats(connection: Connection) -> list[Heard]:
    """By service, type and instance. Where heartbeats do not remove themselves, also of old."""
    free = asyncio.Semaphore(_AT_ONCE)

    async def read(subject: str) -> Heard | None:
        async with free:
            return await _newest(connection, subject)

    found = await asyncio.gather(*map(read, await _subjects(connection)))
    return [heard for heard in found if heard is not None]


async def _subjects(connection: Connection) -> list[str]:
    wanted = {"subjects_filter": subjects.ALL_PRESENCE}
    try:
        info = await api.request(connection, f"STREAM.INFO.{LOG}", wanted)
    except RequestRefused as refusal:
        if refusal.code == api.STREAM_NOT_FOUND:
            raise InfrastructureMissing(f"stream {LOG}") from None
        raise
    return sorted(info["state"].get("subjects") or ())


async def _newest(connection: Connection, subject: str) -> Heard | None:
    whose = subjects.parse(subject)
    if not isinstance(whose, PresenceSubject):
        return None
    stored = await stored_message.newest(connection, LOG, subject)
    if stored is None:
        return None
    beat = wire.decode(stored.data, expected=whose)
    return None if isinstance(beat, str) or beat.stopping else Heard(beat, stored.stored_at)
