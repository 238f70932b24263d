"""Explains a job that waits for its key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobs_admin.api.reasons import Because
from jobs_admin.explain.explanation import Explanation
from jobs_admin.explain.words import ago, format_time

if TYPE_CHECKING:
    from jobs_admin.explain.explanation import Facts
    from trellis_jobs.model.job import Job
    from trellis_jobs.model.keys.state import Slot


def key_taken(job: Job, facts: Facts) -> Explanation | None:
    key, held = facts.key, job.run.concurrency
    if key is None or held is None or key.slot_of(job.id) or len(key.active) < key.max_active:
        return None
    place = next((n for n, each in enumerate(key.queued, 1) if each.job_id == job.id), None)
    details = {
        "key": held.key,
        "holders": [_holder(slot, facts) for slot in key.active],
        "place": place,
        "waiting": len(key.queued),
    }
    first = min(key.active, key=lambda slot: slot.expires_at)
    holder = f"job {first.job_id} on {first.instance}"
    if all(slot.token in facts.expired for slot in key.active):
        return Explanation(
            Because.KEY_BLOCKED,
            f"Its key {held.key} is held by {holder}, whose lease expired "
            f"{ago(first.expires_at, facts.now)}.",
            "a waiting worker takes over the key, or an operator releases it",
            since=first.expires_at,
            details=details,
        )
    in_queue = f"; it is number {place} of {len(key.queued)} waiting jobs" if place else ""
    return Explanation(
        Because.WAITING_FOR_KEY,
        f"Its key {held.key} has been held by {holder} since {format_time(first.started_at)}"
        f"{in_queue}.",
        f"that job ends, or its lease expires at {format_time(first.expires_at)} without renewal",
        since=job.updated_at,
        until=first.expires_at,
        details=details,
    )


def _holder(slot: Slot, facts: Facts) -> dict[str, Any]:
    return {
        "jobId": slot.job_id,
        "instanceId": slot.instance,
        "startedAt": slot.started_at,
        "heartbeatAt": slot.heartbeat_at,
        "leaseExpiresAt": slot.expires_at,
        "isExpired": slot.token in facts.expired,
    }
