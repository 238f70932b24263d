"""The same service after its deploy: its payloads have changed, and older ones are upgraded."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from trellis_jobs import ActiveJob, Jobs, KeyConcurrency, Service, job


class Bill(BaseModel):
    number: int
    cents: int
    currency: str


def in_cents(old: dict[str, Any]) -> dict[str, Any]:
    return {"number": old["number"], "cents": old["euros"] * 100, "currency": "EUR"}


class BillingJobs(Jobs, service="billing"):
    bill = job(Bill, str, concurrency=4, ack_wait=5, version=2, upgrades={1: in_cents})
    remind = job(
        Bill,
        str,
        concurrency=4,
        ack_wait=5,
        key=KeyConcurrency(["/number"]),
        version=2,
        upgrades={1: in_cents},
    )


service = Service(BillingJobs)


@service.jobs.bill.handle
@service.jobs.remind.handle
async def bill(job: ActiveJob[Bill]) -> str:
    return f"v2: {job.payload.cents} cents"
