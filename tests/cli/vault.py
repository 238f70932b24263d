"""A service with secrets, for commands not to show."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, SecretStr

from trellis_jobs import ActiveJob, Jobs, Service, job

PIN: Final = "pin-98765"


class Opening(BaseModel):
    pin: SecretStr
    door: str


class VaultJobs(Jobs, service="vault"):
    open_door = job(Opening, SecretStr, ack_wait=1)


service = Service(VaultJobs)


@service.jobs.open_door.handle
async def open_door(job: ActiveJob[Opening]) -> SecretStr:
    return job.payload.pin
