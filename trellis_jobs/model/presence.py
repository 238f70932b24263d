"""Worker heartbeats, and when a worker counts as dead."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from datetime import datetime

# A worker that missed one heartbeat may be slow; after two in a row it counts as dead.
HEARTBEATS_MISSED_WHEN_DEAD: Final = 2
# After an outage, another worker may reconnect later than this one.
RECONNECT_TOLERANCE: Final = timedelta(seconds=5)
# For heartbeats of other runtimes, which do not include their interval.
DEFAULT_HEARTBEAT_INTERVAL: Final = timedelta(seconds=30)


class WorkerHeartbeat(Value, frozen=True, kw_only=True):
    """`stopping`: this is the worker's last heartbeat. `interval`: time until the next one.

    `loop_blocked`: the longest recent time for which a handler blocked the event loop.
    `contract`: a digest of the queue's contract in this worker.
    `clock_ahead`: how far the worker's clock is ahead of the server's; negative if it is behind.
    """

    service: str
    job_type: str
    instance: str
    at: datetime
    concurrency: int | None = None
    version: str | None = None
    stopping: bool = False
    interval: timedelta | None = None
    loop_blocked: timedelta | None = None
    contract: str | None = None
    clock_ahead: timedelta | None = None


def in_milliseconds(span: timedelta | None) -> int | None:
    return None if span is None else round(span / timedelta(milliseconds=1))


def proves_death(silence: timedelta, interval: timedelta | None) -> bool:
    return silence > HEARTBEATS_MISSED_WHEN_DEAD * (interval or DEFAULT_HEARTBEAT_INTERVAL)


def countable_silence(age: timedelta, connected_for: timedelta | None) -> timedelta:
    """The part of a worker's silence in which it could have sent heartbeats."""
    return age if connected_for is None else min(age, connected_for - RECONNECT_TOLERANCE)


def death_reason(
    newest: WorkerHeartbeat, age: timedelta, connected_for: timedelta | None = None
) -> str | None:
    """Return why a worker counts as dead, given its newest heartbeat, or None if it is alive.

    `age` is measured by the clock of the server that stored the heartbeat. `connected_for` is the
    time since the reader's own connection was restored, if it was ever lost: before that the worker
    may have been unable to send heartbeats too, so its silence proves nothing.
    """
    if newest.stopping:
        return "stopped"
    if proves_death(countable_silence(age, connected_for), newest.interval):
        return f"died: its last heartbeat was {format_duration(age)} ago"
    return None
