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
    # One at a time, ten minutes for each; a report that could not begin for an hour is not wanted.
    build = job(Request, ReportFile, timeout=600, deadline=3600, max_deliver=2)


service = Service(ReportJobs)


@service.jobs.build.handle
async def build(job: ActiveJob[Request]) -> ReportFile:
    """The file is named by the job's id: a second try writes the same one, not another."""
    wanted = job.payload
    job.log(f"reading {wanted.months} months")
    with writing(folder() / f"{job.id}.csv") as report:
        async for month, orders in read_orders(wanted.months):
            report.add(f"{wanted.title},{month},{orders}")
            job.progress(current=month, total=wanted.months, step=f"month {month}")
    return report.finished


async def read_orders(months: int) -> AsyncIterator[tuple[int, int]]:
    for month in range(1, months + 1):
        await asyncio.sleep(0.2)  # a slow query; a cancel arrives at any await
        yield month, 100 * month


def folder() -> Path:
    """Where reports are kept: all workers should see the same place, such as a bucket."""
    return Path(os.environ.get("REPORTS_DIR", "reports"))
