"""Attempts ⇄ JSON."""

from __future__ import annotations

from typing import Any

from trellis_jobs.model.attempts import Attempt
from trellis_jobs.wire.fields import count, optional, required


def to_json(attempt: Attempt) -> dict[str, Any]:
    return {
        "id": attempt.id,
        "instanceId": attempt.instance,
        "work": attempt.work,
        "delivery": attempt.delivery,
    }


def from_json(body: dict[str, Any]) -> Attempt | None:
    """The attempt that an event or a job names; foreign runtimes name none."""
    attempt = optional(body, "attempt", dict)
    if attempt is None:
        return None
    return Attempt(
        required(attempt, "id", str),
        required(attempt, "instanceId", str),
        required(attempt, "work", str),
        count(attempt, "delivery", least=1),
    )
