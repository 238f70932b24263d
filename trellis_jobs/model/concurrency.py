"""The key-related parts of events: the job's key, its slot, and the queue policy's decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from datetime import datetime


class Concurrency(Value, frozen=True, kw_only=True):
    key: str
    key_hash: str
    slot_token: str | None = None
    instance: str | None = None
    heartbeat_at: datetime | None = None
    lease_expires_at: datetime | None = None
    stale_takeovers: int | None = None


class QueuePolicy(Value, frozen=True, kw_only=True):
    """`outcome` is one of accepted, rejected, coalesced, replaced."""

    outcome: str
    reason: str | None = None
    existing_job_id: str | None = None
    replaced_job_id: str | None = None
