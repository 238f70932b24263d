"""What events say about a job's key: which it is, who held a slot of it, what the queue decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Concurrency:
    key: str
    key_hash: str
    slot_token: str | None = None
    instance: str | None = None
    heartbeat_at: datetime | None = None
    lease_expires_at: datetime | None = None
    stale_takeovers: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePolicy:
    """`outcome` is one of accepted, rejected, coalesced, replaced."""

    outcome: str
    reason: str | None = None
    existing_job_id: str | None = None
    replaced_job_id: str | None = None
