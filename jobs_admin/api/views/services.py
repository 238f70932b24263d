"""Services and their workers, statistics, and ignored messages."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import model_validator

from jobs_admin.api.views.base import View, with_defaults


class WorkerView(View):
    """`timestamp` is when the server stored the worker's last heartbeat.

    `loop_blocked_ms`: the longest time that a handler blocked the event loop in the last 10 min.
    `contract_digest`: workers of one queue with different digests have different contracts.
    `clock_offset_ms`: how far the worker's clock is ahead of the server's; negative if behind.
    """

    service: str
    job_type: str
    instance_id: str
    timestamp: datetime
    concurrency: int | None = None
    version: str | None = None
    loop_blocked_ms: int | None = None
    contract_digest: str | None = None
    clock_offset_ms: int | None = None


class TypeView(View):
    """`unattended`: there are jobs to run, and no live worker for them."""

    type: str
    pending: int
    retry: int
    active: int
    live_workers: int
    unattended: bool
    oldest_pending_at: datetime | None = None


class ServiceView(View):
    """`omitted_workers`: how many workers did not fit into the reply."""

    name: str
    healthy: bool
    workers: tuple[WorkerView, ...]
    types: tuple[TypeView, ...]
    omitted_workers: int = 0

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        return with_defaults(data, types=())


class IgnoredView(View):
    """A message of the log that was ignored, and why.

    An illegal event has its job (`service`, `type`, `id`) and `kind`. A message that is not an
    event has its `subject` and its `size` in bytes; its content may be secret and is not shown.
    """

    seq: int
    reason: str
    service: str | None = None
    type: str | None = None
    id: str | None = None
    kind: str | None = None
    subject: str | None = None
    size: int | None = None


class TypeStats(View):
    """The number of jobs by state, and events per minute by kind."""

    service: str
    type: str
    states: dict[str, int]
    per_minute: dict[str, float]
    oldest_pending_at: datetime | None = None
    oldest_pending_age_ms: int | None = None


class StatsView(View):
    timestamp: datetime
    window_minutes: int
    states: dict[str, int]
    per_minute: dict[str, float]
    oldest_pending_age_ms: int
    types: tuple[TypeStats, ...]
