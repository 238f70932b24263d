"""What is said about the schedule that created a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.errors import InvalidToken
from trellis_jobs.model.schedules.address import ScheduleAddress, tick_job_id, tick_of_job

if TYPE_CHECKING:
    from datetime import datetime

    from trellis_jobs.model.identity import JobAddress


def created_by_schedule(job: JobAddress, schedule: str, run_at: datetime | None) -> str:
    """`schedule nightly for the tick 2026-05-01T02:30:00Z`, or that someone triggered it."""
    tick = _tick(job, schedule, run_at)
    if tick is None:
        return f"schedule {schedule}, which someone triggered"
    at = tick.isoformat(timespec="seconds").replace("+00:00", "Z")
    return f"schedule {schedule} for the tick {at}"


def _tick(job: JobAddress, schedule: str, run_at: datetime | None) -> datetime | None:
    """The job has the id of its tick. Its `run_at` is another time if an operator has moved it."""
    try:
        address = ScheduleAddress(job.service, job.job_type, schedule)
    except InvalidToken:
        return None
    if run_at is not None and tick_job_id(address, run_at) == job.job_id:
        return run_at
    return tick_of_job(address, job.job_id)
