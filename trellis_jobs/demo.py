"""A service that shows what jobs can do: `trellis-jobs dev` runs it, newcomers read it.

Nothing is random. What a job meets on its way is in its payload, as with the test cards of a
payment provider, so the same things happen every time.
"""

from __future__ import annotations

import asyncio
import time

from pydantic import BaseModel

from trellis_jobs import ActiveJob, Fail, Jobs, Retry, Service, job

DECLINED_CARD = "4000 0000 0000 0002"
BROKEN_GATEWAY_CARD = "4000 0000 0000 0119"


class Image(BaseModel):
    name: str
    widths: list[int]


class Tickets(BaseModel):
    origin: str
    outages: int = 0


class Email(BaseModel):
    to: str
    subject: str


class Charge(BaseModel):
    order: int
    cents: int
    card: str


class ReportRequest(BaseModel):
    day: str
    regions: list[str]


class Push(BaseModel):
    device: str
    text: str


class Unroutable(Exception):
    pass


class GatewayDown(Exception):
    pass


class DemoJobs(Jobs, service="demo"):
    resize_image = job(Image, list[str], concurrency=3)
    sync_tickets = job(Tickets, int, concurrency=2, backoff=[0.5, 1, 2, 4])
    send_email = job(Email, concurrency=2, permanent=[Unroutable])
    charge_card = job(Charge, str, concurrency=2, max_deliver=3, backoff=[1, 2])
    nightly_report = job(ReportRequest, int, concurrency=2, timeout=60)
    push_message = job(Push, deadline=2)  # nobody wants to hear it late


service = Service(DemoJobs)


@service.jobs.resize_image.handle
async def resize(job: ActiveJob[Image]) -> list[str]:
    """Progress: how far the work is, shown while it runs."""
    image, made = job.payload, list[str]()
    for width in image.widths:
        await asyncio.sleep(0.25)
        made.append(f"{image.name}@{width}")
        job.progress(current=len(made), total=len(image.widths), step=f"{width}px")
    return made


@service.jobs.sync_tickets.handle
async def sync(job: ActiveJob[Tickets]) -> int:
    """Any exception is tried again, after a delay that the queue declares."""
    await asyncio.sleep(0.3)
    if job.tries <= job.payload.outages:
        raise ConnectionError(f"{job.payload.origin}.example did not answer")
    return 9


@service.jobs.send_email.handle
async def send(job: ActiveJob[Email]) -> None:
    """Fail ends the job at once: another try could not help. So do the queue's `permanent`."""
    await asyncio.sleep(0.4)
    if "@" not in job.payload.to:
        raise Fail(f"{job.payload.to!r} is no address")
    if not job.payload.to.isascii():
        raise Unroutable("the mail server takes ASCII addresses only")


@service.jobs.charge_card.handle
async def charge(job: ActiveJob[Charge]) -> str:
    """A job whose tries are used up is dead, with everything that went wrong in its history."""
    await asyncio.sleep(0.5)
    if job.payload.card == DECLINED_CARD:
        raise Fail("the card was declined")
    if job.payload.card == BROKEN_GATEWAY_CARD:
        raise GatewayDown("payment gateway answered 503")
    return f"receipt {job.payload.order:05}"


@service.jobs.nightly_report.handle
async def report(job: ActiveJob[ReportRequest]) -> int:
    """Long work may be cancelled or handed back at any await; its log is for operators to read."""
    regions = job.payload.regions
    for done, region in enumerate(regions, start=1):
        job.log(f"reading the orders of {region}")
        for quarter in range(4):
            await asyncio.sleep(0.35)
            job.progress(current=4 * (done - 1) + quarter + 1, total=4 * len(regions), step=region)
    return 100 * len(regions)


@service.jobs.push_message.handle
def push(job: ActiveJob[Push]) -> None:
    """A plain function runs in a thread of its own, so blocking calls are fine."""
    time.sleep(0.9)
    if job.tries == 1 and job.payload.device == "watch":
        raise Retry("the watch is asleep", after=1)
