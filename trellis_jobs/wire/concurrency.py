"""The `concurrency` and `queuePolicy` objects of events ⇄ JSON."""

from __future__ import annotations

from typing import Any

from trellis_jobs.model.concurrency import Concurrency, QueuePolicy
from trellis_jobs.wire.fields import (
    count,
    non_empty_text,
    optional,
    optional_timestamp,
    required,
    token,
)


def to_json(concurrency: Concurrency) -> dict[str, Any]:
    fields = {
        "key": concurrency.key,
        "keyHash": concurrency.key_hash,
        "slotToken": concurrency.slot_token,
        "instanceId": concurrency.instance,
        "heartbeatAt": concurrency.heartbeat_at,
        "leaseExpiresAt": concurrency.lease_expires_at,
        "staleTakeoverCount": concurrency.stale_takeovers,
    }
    return {name: value for name, value in fields.items() if value is not None}


def from_json(body: dict[str, Any]) -> Concurrency | None:
    """The concurrency object of an event, or None."""
    found = optional(body, "concurrency", dict)
    if found is None:
        return None
    return Concurrency(
        key=required(found, "key", str),
        key_hash=token(found, "keyHash"),
        slot_token=None if found.get("slotToken") is None else non_empty_text(found, "slotToken"),
        instance=optional(found, "instanceId", str),
        heartbeat_at=optional_timestamp(found, "heartbeatAt"),
        lease_expires_at=optional_timestamp(found, "leaseExpiresAt"),
        stale_takeovers=(
            count(found, "staleTakeoverCount") if "staleTakeoverCount" in found else None
        ),
    )


def policy_to_json(policy: QueuePolicy) -> dict[str, str]:
    fields = {
        "outcome": policy.outcome,
        "reason": policy.reason,
        "existingJobId": policy.existing_job_id,
        "replacedJobId": policy.replaced_job_id,
    }
    return {name: value for name, value in fields.items() if value is not None}


def policy_from_json(body: dict[str, Any]) -> QueuePolicy | None:
    found = optional(body, "queuePolicy", dict)
    if found is None:
        return None
    return QueuePolicy(
        outcome=required(found, "outcome", str),
        reason=optional(found, "reason", str),
        existing_job_id=optional(found, "existingJobId", str),
        replaced_job_id=optional(found, "replacedJobId", str),
    )
