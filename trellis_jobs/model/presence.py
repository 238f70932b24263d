"""What a worker tells about itself at regular intervals; correctness never depends on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHeartbeat:
    """`stopping`: its last, so that nobody counts on the worker any more."""

    service: str
    job_type: str
    instance: str
    at: datetime
    concurrency: int | None = None
    version: str | None = None
    stopping: bool = False
