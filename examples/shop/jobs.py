"""The jobs of a shop. A web application creates them, and a worker runs them."""

from __future__ import annotations

from pydantic import BaseModel

from trellis_jobs import ActiveJob, Jobs, Service, job


class Order(BaseModel):
    number: int
    email: str


class ShopJobs(Jobs, service="shop"):
    send_receipt = job(Order, str, max_deliver=5, backoff=[1, 10, 60])


service = Service(ShopJobs)


@service.jobs.send_receipt.handle
async def send_receipt(job: ActiveJob[Order]) -> str:
    return f"receipt of order {job.payload.number} sent to {job.payload.email}"
