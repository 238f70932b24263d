"""Services and their workers, numbers over all jobs, and how the admin runtime fares."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import model_validator

from jobs_admin.api.views.shape import View, with_missing


class WorkerView(View):
    """`timestamp` is when it was last heard of, by the server's clock.

    `loop_blocked_ms`: the longest that a handler blocked its event loop in the last ten minutes.
    `contract_digest`: workers of one queue with different digests have different contracts.
    `clock_offset_ms`: how far its clock is ahead of the server's; negative if it is behind.
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
    """`unattended`: there is work, and no live worker for it."""

    type: str
    pending: int
    retry: int
    active: int
    live_workers: int
    unattended: bool
    oldest_pending_at: datetime | None = None


class ServiceView(View):
    """`omitted_workers`: how many more there are than one answer can hold."""

    name: str
    healthy: bool
    workers: tuple[WorkerView, ...]
    types: tuple[TypeView, ...]
    omitted_workers: int = 0

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, told: Any) -> Any:
        return with_missing(told, types=())


class IgnoredView(View):
    """A message of the log that did not count, and why.

    An event that was not legal has its job (`service`, `type`, `id`) and `kind`; a message that is
    no event has its `subject` and its `size` in bytes: what is in it may be secret.
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
    """Jobs by state, and events per minute by kind."""

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
