"""A service before its deploy."""

from __future__ import annotations

from pydantic import BaseModel

from trellis_jobs import ActiveJob, Jobs, KeyConcurrency, Service, job


class Bill(BaseModel):
    number: int
    euros: int


class BillingJobs(Jobs, service="billing"):
    bill = job(Bill, str, concurrency=4, ack_wait=5)
    remind = job(Bill, str, concurrency=4, ack_wait=5, key=KeyConcurrency(["/number"]))


service = Service(BillingJobs)


@service.jobs.bill.handle
@service.jobs.remind.handle
async def bill(job: ActiveJob[Bill]) -> str:
    return f"v1: {job.payload.euros} EUR"
