"""A service with a secret, keys and a handler that fails, for jobs to be created and taken home."""

from __future__ import annotations

import os
from typing import Final

from pydantic import BaseModel, Field, SecretStr

from trellis_jobs import ActiveJob, Jobs, KeyConcurrency, QueueDepth, Service, job

PIN: Final = "pin-13579"


class BankDown(Exception):
    pass


class Charge(BaseModel):
    customer: str
    cents: int = Field(ge=1)
    pin: SecretStr = SecretStr(PIN)


class Sync(BaseModel):
    origin: str


BY_ORIGIN: Final = KeyConcurrency(["origin", "/origin"])


class BankJobs(Jobs, service="bank"):
    charge = job(Charge, str, ack_wait=1, max_deliver=2, backoff=[0.01], docs={"title": "Charge"})
    sync = job(Sync, key=BY_ORIGIN, queue=QueueDepth(1))
    merge = job(Sync, key=BY_ORIGIN, queue=QueueDepth(0, "coalesce"))
    newest = job(Sync, key=BY_ORIGIN, queue=QueueDepth(1, "replace-oldest"))
    brief = job(str, deadline=60)


service = Service(BankJobs, version="1.4.2")


@service.jobs.charge.handle
async def charge(job: ActiveJob[Charge]) -> str:
    await job.log(f"asking the bank about {job.payload.customer}")
    await job.progress(current=1, total=2, step="ask")
    if "BANK_IS_UP" not in os.environ:
        raise BankDown(f"503 for {job.payload.customer}")
    return (
        f"{job.id} took {job.payload.cents} with {len(job.payload.pin.get_secret_value())} digits"
    )


@service.jobs.sync.handle
async def sync(_: ActiveJob[Sync]) -> None: ...


@service.jobs.merge.handle
async def merge(_: ActiveJob[Sync]) -> None: ...


@service.jobs.newest.handle
async def newest(_: ActiveJob[Sync]) -> None: ...


@service.jobs.brief.handle
async def brief(_: ActiveJob[str]) -> None: ...
