"""A service with secrets, for commands not to show."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, Field, SecretStr

from trellis_jobs import ActiveJob, Jobs, Service, job
from trellis_jobs.contract.consumer_metadata import MAX_CONTRACT_LENGTH

PIN: Final = "pin-98765"


class Opening(BaseModel):
    pin: SecretStr
    door: str


class Hiding(BaseModel):
    """More than a consumer can carry."""

    pin: SecretStr
    where: str = Field(description="x" * MAX_CONTRACT_LENGTH)


class VaultJobs(Jobs, service="vault"):
    open_door = job(Opening, SecretStr, ack_wait=1)
    hide_pin = job(Hiding, SecretStr)


service = Service(VaultJobs)


@service.jobs.open_door.handle
async def open_door(job: ActiveJob[Opening]) -> SecretStr:
    return job.payload.pin


@service.jobs.hide_pin.handle
async def hide_pin(job: ActiveJob[Hiding]) -> SecretStr:
    return job.payload.pin
