"""A service whose queues have keys, for the command to find."""

from __future__ import annotations

from pydantic import BaseModel

from trellis_jobs import Jobs, KeyConcurrency, QueueDepth, Service, job

BY_ORIGIN = KeyConcurrency(["/origin"])


class Sync(BaseModel):
    origin: str


class DeskJobs(Jobs, service="desk"):
    patient = job(Sync, key=BY_ORIGIN, queue=QueueDepth(0))
    merging = job(Sync, key=BY_ORIGIN, queue=QueueDepth(0, "coalesce"))
    newest = job(Sync, key=BY_ORIGIN, queue=QueueDepth(0, "replace-oldest"))


service = Service(DeskJobs)
