"""A job that the system's cron creates."""

from __future__ import annotations

from datetime import date

from pydantic import BaseModel

from trellis_jobs import ActiveJob, Jobs, Service, job


class Day(BaseModel):
    day: date


class ReportsJobs(Jobs, service="reports"):
    nightly = job(Day, str, max_deliver=5, backoff=[60, 600], deadline=12 * 3600)


service = Service(ReportsJobs)


@service.jobs.nightly.handle
async def nightly(job: ActiveJob[Day]) -> str:
    return f"report of {job.payload.day:%Y-%m-%d}"
