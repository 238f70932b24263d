"""Keys: who holds one, and who waits for it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import model_validator

from jobs_admin.api.views.shape import View, with_missing
from trellis_jobs.model.keys.state import KEYS_BUCKET


class HolderView(View):
    """A job that runs under the key; its lease is over unless it is renewed before."""

    job_id: str
    instance_id: str
    started_at: datetime
    heartbeat_at: datetime
    heartbeat_age_ms: int
    lease_expires_at: datetime


class WaitingView(View):
    job_id: str
    created_at: datetime


class KeyView(View):
    """As the bucket has it right now. `seq` comes with a release that was recorded.

    `queued` are the first 1,000 that wait, `queued_depth` says how many do. `latest_policy_reason`
    is why one of its newest jobs was let in though the key was full: `replace-oldest`. Who was
    rejected or coalesced was told so, and left nothing in the log. Limits of 0 are not known: the
    original admin runtime does not send them. `bucket` is where its state is: queues that are
    shared with other runtimes may keep their keys in another one than `JOBS_KEYS`.
    """

    service: str
    type: str
    key: str
    key_hash: str
    active: tuple[HolderView, ...]
    queued: tuple[WaitingView, ...]
    queued_depth: int
    stale_takeover_count: int
    max_active: int
    max_queued_per_key: int
    bucket: str = KEYS_BUCKET
    latest_policy_reason: str | None = None
    updated_at: datetime | None = None
    seq: int | None = None

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, told: Any) -> Any:
        return with_missing(told, max_active=0, max_queued_per_key=0)


class BusyKeyView(View):
    """How many jobs run under a key, and wait for it, as the projection has it."""

    service: str
    type: str
    key: str
    key_hash: str
    active: int
    waiting: int
