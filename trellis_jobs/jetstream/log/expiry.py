"""Decides whether a job has expired, from its newest event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.model import events as e

if TYPE_CHECKING:
    from datetime import datetime

    from trellis_jobs.jetstream.log.reads import Latest
    from trellis_jobs.model.identity import JobAddress


def plan_expiry(job: JobAddress, latest: Latest, now: datetime) -> e.Expired | None:
    """Use the deadline of the current run, because an operator's retry may have dropped it."""
    status = latest.head.status
    if status.is_over or status.deadline is None or status.deadline > now:
        return None
    return e.Expired(**latest.event_fields(job, now), by="janitor", reason="the deadline passed")
