"""The service: `trellis-jobs worker examples.reports.app:service`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from pydantic import BaseModel

from examples.reports.report_file import ReportFile, writing
from trellis_jobs import ActiveJob, Jobs, Service, job


class Request(BaseModel):
    title: str
    months: int


class ReportJobs(Jobs, service="reports"):
    # One at a time, ten minutes for each try. A report that cannot start within an hour expires.
    build = job(Request, ReportFile, timeout=600, deadline=3600, max_deliver=2)


service = Service(ReportJobs)


@service.jobs.build.handle
async def build(job: ActiveJob[Request]) -> ReportFile:
    """Names the file after the job's id, so that a second try replaces the same file."""
    request = job.payload
    job.log(f"reading {request.months} months")
    with writing(folder() / f"{job.id}.csv") as report:
        async for month, orders in read_orders(request.months):
            report.add(f"{request.title},{month},{orders}")
            job.progress(current=month, total=request.months, step=f"month {month}")
    return report.finished


async def read_orders(months: int) -> AsyncIterator[tuple[int, int]]:
    for month in range(1, months + 1):
        await asyncio.sleep(0.2)  # A slow query. A job can be cancelled at any await.
        yield month, 100 * month


def folder() -> Path:
    """The folder of the reports. In production, use storage that all workers share."""
    return Path(os.environ.get("REPORTS_DIR", "reports"))
