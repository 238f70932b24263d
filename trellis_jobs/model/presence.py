"""What a worker tells about itself at regular intervals; correctness never depends on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from datetime import datetime


class WorkerHeartbeat(Value, frozen=True, kw_only=True):
    """`stopping`: its last, so that nobody counts on the worker any more."""

    service: str
    job_type: str
    instance: str
    at: datetime
    concurrency: int | None = None
    version: str | None = None
    stopping: bool = False
