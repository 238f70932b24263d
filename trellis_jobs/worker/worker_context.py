"""What every attempt of one queue works with."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trellis_jobs.worker.end_hints import EndHints

if TYPE_CHECKING:
    from collections.abc import Callable

    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.log.event_log import EventLog
    from trellis_jobs.jetstream.log.presence import Presence
    from trellis_jobs.jetstream.work.lease_keeper import LeaseKeeper
    from trellis_jobs.telemetry import Telemetry
    from trellis_jobs.worker.background_tasks import Background


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """`ack_wait` is the consumer's lease in seconds, as the server has it."""

    events: EventLog
    presence: Presence
    telemetry: Telemetry
    environment: Environment
    background: Background
    leases: LeaseKeeper
    instance: str
    ack_wait: float
    end_hints: EndHints = field(default_factory=EndHints)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _thread: int = field(default_factory=threading.get_ident)

    def current_task(self) -> asyncio.Task[Any] | None:
        return asyncio.current_task(self._loop)

    def on_loop(self, call: Callable[..., None], *args: Any) -> None:
        """Run `call` on the event loop, from whatever thread a handler runs in."""
        if threading.get_ident() == self._thread:
            call(*args)
        else:
            self._loop.call_soon_threadsafe(call, *args)
