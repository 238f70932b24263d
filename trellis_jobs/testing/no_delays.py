"""Makes the retries and snoozes of a handler immediate."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from trellis_jobs.errors import Retry, Snooze
from trellis_jobs.model import values
from trellis_jobs.worker.handlers import Handler

if TYPE_CHECKING:
    from trellis_jobs.worker.active_job import ActiveJob


def without_delays(handler: Handler) -> Handler:
    """Keeps the limits of tries and snoozes, and ignores all delays.

    These are `backoff`, `Retry(after=…)` and those of `Snooze`.
    """
    queue = handler.queue

    async def call(active: ActiveJob[Any]) -> Any:
        try:
            return await handler.call(active)
        except Retry as retry:
            retry.after = None
            raise
        except Snooze as snooze:
            snooze.for_, snooze.until = timedelta(), None
            raise

    at_once = replace(queue, retry=values.replace(queue.retry, delays=()))
    return Handler(at_once, call, handler.name)
