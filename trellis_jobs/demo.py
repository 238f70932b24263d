"""A demo service that shows what jobs can do. `trellis-jobs dev` runs it.

Nothing is random: the payload decides how a job ends, as with the test cards of a payment provider.
"""

from __future__ import annotations

import asyncio
import time

from pydantic import BaseModel

from trellis_jobs import ActiveJob, Every, Fail, Jobs, Retry, Service, job

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
    nightly_report = job(
        ReportRequest,
        int,
        concurrency=2,
        timeout=60,
        # A night of this demo takes ten seconds.
        schedules={
            "nightly": Every(10, payload=ReportRequest(day="yesterday", regions=["north", "south"]))
        },
    )
    push_message = job(Push, deadline=2)  # a late message is useless


service = Service(DemoJobs)


@service.jobs.resize_image.handle
async def resize(job: ActiveJob[Image]) -> list[str]:
    """Reports progress, which is shown while the job runs."""
    image, made = job.payload, list[str]()
    for width in image.widths:
        await asyncio.sleep(0.25)
        made.append(f"{image.name}@{width}")
        job.progress(current=len(made), total=len(image.widths), step=f"{width}px")
    return made


@service.jobs.sync_tickets.handle
async def sync(job: ActiveJob[Tickets]) -> int:
    """A job that raises an exception is tried again after the delays of its queue."""
    await asyncio.sleep(0.3)
    if job.tries <= job.payload.outages:
        raise ConnectionError(f"{job.payload.origin}.example did not answer")
    return 9


@service.jobs.send_email.handle
async def send(job: ActiveJob[Email]) -> None:
    """`Fail` and the queue's `permanent` exceptions end the job without another try."""
    await asyncio.sleep(0.4)
    if "@" not in job.payload.to:
        raise Fail(f"{job.payload.to!r} is not an email address")
    if not job.payload.to.isascii():
        raise Unroutable("the mail server accepts ASCII addresses only")


@service.jobs.charge_card.handle
async def charge(job: ActiveJob[Charge]) -> str:
    """A job is dead after its last try. Its history has the error of each try."""
    await asyncio.sleep(0.5)
    if job.payload.card == DECLINED_CARD:
        raise Fail("the card was declined")
    if job.payload.card == BROKEN_GATEWAY_CARD:
        raise GatewayDown("payment gateway answered 503")
    return f"receipt {job.payload.order:05}"


@service.jobs.nightly_report.handle
async def report(job: ActiveJob[ReportRequest]) -> int:
    """A long job can be cancelled at any await. Its log lines are for operators."""
    regions = job.payload.regions
    for done, region in enumerate(regions, start=1):
        job.log(f"reading the orders of {region}")
        for quarter in range(4):
            await asyncio.sleep(0.35)
            job.progress(current=4 * (done - 1) + quarter + 1, total=4 * len(regions), step=region)
    return 100 * len(regions)


@service.jobs.push_message.handle
def push(job: ActiveJob[Push]) -> None:
    """A plain function runs in its own thread, so it may block."""
    time.sleep(0.9)
    if job.tries == 1 and job.payload.device == "watch":
        raise Retry("the watch is asleep", after=1)
