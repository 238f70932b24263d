"""What all attempts of one queue share."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trellis_jobs.worker.end_watch import RecentEndHints

if TYPE_CHECKING:
    from collections.abc import Callable

    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.control.worker_records import WorkerRecords
    from trellis_jobs.jetstream.log.event_log import EventLog
    from trellis_jobs.jetstream.log.presence import Presence
    from trellis_jobs.jetstream.work.lease_keeper import LeaseKeeper
    from trellis_jobs.telemetry import Telemetry
    from trellis_jobs.worker.background_tasks import BackgroundTasks
    from trellis_jobs.worker.identity import WorkerIdentity


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """`ack_wait` is the lease of a delivery in seconds, as the server's consumer has it."""

    events: EventLog
    presence: Presence
    telemetry: Telemetry
    environment: Environment
    background: BackgroundTasks
    leases: LeaseKeeper
    identity: WorkerIdentity
    ack_wait: float
    records: WorkerRecords | None = None
    end_hints: RecentEndHints = field(default_factory=RecentEndHints)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _thread: int = field(default_factory=threading.get_ident)

    def current_task(self) -> asyncio.Task[Any] | None:
        return asyncio.current_task(self._loop)

    def on_loop(self, call: Callable[..., None], *args: Any) -> None:
        """Runs `call` on the event loop. Sync handlers use this from their threads."""
        if threading.get_ident() == self._thread:
            call(*args)
        else:
            self._loop.call_soon_threadsafe(call, *args)
