"""The current job, for code that a handler calls without passing the job on."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.errors import NoCurrentJob

if TYPE_CHECKING:
    from trellis_jobs.worker.active_job import ActiveJob

CURRENT: Final[ContextVar[ActiveJob[Any]]] = ContextVar("trellis_jobs_current_job")


def current_job() -> ActiveJob[Any]:
    """Returns the job whose handler is running. Raises NoCurrentJob outside a handler.

    Works in everything a handler calls, in the tasks it starts, in `asyncio.to_thread`, and in sync
    handlers. A thread that the handler starts itself needs `contextvars.copy_context()`.
    """
    try:
        return CURRENT.get()
    except LookupError:
        raise NoCurrentJob(
            "current_job() was called outside a handler: only code that a handler calls has a job; "
            "in a thread of your own, run it in contextvars.copy_context()"
        ) from None
