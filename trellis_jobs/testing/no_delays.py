"""Makes the retries of a handler immediate."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trellis_jobs.errors import Retry
from trellis_jobs.model.retry import RetryPolicy
from trellis_jobs.worker.handlers import Handler

if TYPE_CHECKING:
    from trellis_jobs.worker.active_job import ActiveJob


def without_delays(handler: Handler) -> Handler:
    """Keeps the number of tries, and ignores `backoff` and `Retry(after=…)`."""
    queue = handler.queue

    async def call(active: ActiveJob[Any]) -> Any:
        try:
            return await handler.call(active)
        except Retry as retry:
            retry.after = None
            raise

    at_once = replace(queue, retry=RetryPolicy(queue.retry.max_tries, ()))
    return Handler(at_once, call, handler.name)
