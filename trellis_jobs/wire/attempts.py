"""Attempts ⇄ JSON."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from trellis_jobs.model.attempts import Attempt
from trellis_jobs.wire.fields import as_token, count, required


def to_json(attempt: Attempt) -> dict[str, Any]:
    return {
        "id": attempt.id,
        "instanceId": attempt.instance,
        "work": attempt.work,
        "delivery": attempt.delivery,
    }


def from_json(body: dict[str, Any]) -> Attempt | None:
    """The attempt in an event or a job. Returns None for foreign runtimes, which write none."""
    if body.get("attempt") is None:
        return None
    attempt = required(body, "attempt", dict)
    return _attempt(
        required(attempt, "id", str),
        required(attempt, "instanceId", str),
        required(attempt, "work", str),
        count(attempt, "delivery", minimum=1),
    )


@lru_cache(maxsize=8192)
def _attempt(attempt_id: str, instance: str, work: str, delivery: int) -> Attempt:
    """Cached, because the events of an attempt arrive close together."""
    return Attempt(as_token("id", attempt_id), as_token("instanceId", instance), work, delivery)
