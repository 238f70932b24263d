"""Keys, the jobs that hold them, and the jobs that wait for them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import model_validator

from jobs_admin.api.views.base import View, with_defaults
from trellis_jobs.model.keys.state import KEYS_BUCKET


class HolderView(View):
    """A job that holds a slot of the key until `lease_expires_at`, unless it renews the lease."""

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
    """The current state of a key in the bucket. `seq` is set after a release that was recorded.

    `queued` are the first 1,000 waiting jobs, `queued_depth` is the number of all of them.
    `latest_policy_reason` is why one of the newest jobs was admitted although the key was full:
    `replace-oldest`. Rejected and coalesced jobs are not in the log. A limit of 0 is unknown: the
    original admin runtime does not send limits. `bucket` is where the state is; queues
    that are shared with other runtimes may use another one than `JOBS_KEYS`.
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
    def _complete(cls, data: Any) -> Any:
        return with_defaults(data, max_active=0, max_queued_per_key=0)


class BusyKeyView(View):
    """How many jobs hold a key and wait for it, from the projection.

    `holders`, `max_active` (the number of slots), `oldest_waiting_at` (when the oldest waiting job
    was created) and `takeovers` (from dead holders) are from the bucket. They are missing if the
    state of the key could not be read.
    """

    service: str
    type: str
    key: str
    key_hash: str
    active: int
    waiting: int
    holders: tuple[HolderView, ...] | None = None
    max_active: int | None = None
    oldest_waiting_at: datetime | None = None
    takeovers: int | None = None
