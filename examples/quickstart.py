"""Declare a job, handle it, create one, and wait for its result."""

from __future__ import annotations

import asyncio

from example_server import a_server
from pydantic import BaseModel

from trellis_jobs import ActiveJob, Jobs, Service, job


class SyncTickets(BaseModel):
    origin: str


class SyncReport(BaseModel):
    tickets: int


class HelpdeskJobs(Jobs, service="helpdesk"):
    sync_tickets = job(SyncTickets, SyncReport, concurrency=4)


service = Service(HelpdeskJobs)


@service.jobs.sync_tickets.handle
async def sync(job: ActiveJob[SyncTickets]) -> SyncReport:
    await job.progress(current=1, total=9, step="fetch")
    return SyncReport(tickets=9)


async def main(url: str) -> None:
    async with service.connect(url):  # provisions or checks, then starts a worker
        ref = await service.jobs.sync_tickets.create(SyncTickets(origin="acme"))
        report = await ref.wait(timeout=30)
        print(f"synced {report.tickets} tickets")
        for event in await ref.events():
            print(f"  {event.kind}")


if __name__ == "__main__":
    with a_server() as url:
        asyncio.run(main(url))
