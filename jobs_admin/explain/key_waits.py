"""A job that waits because others have its key, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobs_admin.api.reasons import Because
from jobs_admin.explain.explanation import Explanation
from jobs_admin.explain.words import ago, clock

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
            f"Its key {held.key} is held by {holder}, whose lease ended "
            f"{ago(first.expires_at, facts.now)}.",
            "a waiting worker takes the key over, or an operator releases it",
            since=first.expires_at,
            details=details,
        )
    in_line = f"; it is number {place} of {len(key.queued)} that wait" if place else ""
    return Explanation(
        Because.WAITING_FOR_KEY,
        f"Its key {held.key} is held by {holder} since {clock(first.started_at)}{in_line}.",
        f"that job ends, or its lease does at {clock(first.expires_at)} unless it is renewed",
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
