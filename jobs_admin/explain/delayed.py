"""Explains a job that waits for its time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobs_admin.api.reasons import Because
from jobs_admin.explain.explanation import Explanation
from jobs_admin.explain.words import ago, due_in, format_time, one_line
from trellis_jobs.contract.topology import alarms_stream

if TYPE_CHECKING:
    from datetime import datetime

    from jobs_admin.explain.explanation import Facts
    from trellis_jobs.model.job import Job


def explain_delay(job: Job, facts: Facts) -> Explanation:
    at = job.status.next_attempt_at
    if at is None or at <= facts.now:
        return _overdue(job, at, facts)
    return Explanation(
        Because.DELAYED,
        f"It is delayed until {format_time(at)}, which is {due_in(at, facts.now)}{_moved(facts)}.",
        f"a worker of service {job.address.service} releases it at that time",
        since=job.updated_at,
        until=at,
        details=_details(facts),
    )


def _overdue(job: Job, at: datetime | None, facts: Facts) -> Explanation:
    why, then = _why_overdue(job.address.service, facts)
    due = "" if at is None else f" {ago(at, facts.now)}"
    return Explanation(
        Because.OVERDUE,
        f"It was due{due}{_moved(facts)}, and {why}.",
        then,
        since=at,
        details=_details(facts),
    )


def _why_overdue(service: str, facts: Facts) -> tuple[str, str]:
    """Why nothing happens, and what must happen next."""
    alarms = facts.alarms
    if alarms is None:
        return "no process has released it yet", (
            f"a worker of service {service} releases it, or the admin runtime reminds one of it"
        )
    if not alarms.has_stream:
        return (
            f"the stream {alarms_stream(service)}, which reminds workers of delayed jobs, is "
            "missing",
            "an operator creates the stream: `trellis-jobs infra apply MODULE:SERVICE` with the "
            f"code of service {service}",
        )
    if not alarms.is_received:
        return f"no worker of service {service} is up to release it", (
            f"a worker of service {service} starts; workers of versions that do not know delayed "
            "jobs do not release them"
        )
    return "no worker has released it yet: its alarm is late or was lost", (
        "the admin runtime publishes its alarm again half a minute after its time, and a worker "
        f"of service {service} releases it"
    )


def _moved(facts: Facts) -> str:
    moved = facts.moved
    if moved is None or moved.by is None:
        return ""
    why = f": {one_line(moved.reason)}" if moved.reason else ""
    return f"; {moved.by} moved it {ago(moved.at, facts.now)}{why}"


def _details(facts: Facts) -> dict[str, Any]:
    moved, alarms = facts.moved, facts.alarms
    details: dict[str, Any] = {}
    if moved is not None and moved.by is not None:
        details |= {"movedBy": moved.by, "movedAt": moved.at, "moveReason": moved.reason}
    if alarms is not None and alarms.has_stream:
        details |= {"alarmsWaiting": alarms.waiting, "alarmWorkers": alarms.waiting_pulls}
    return details
