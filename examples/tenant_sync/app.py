"""The service: `trellis-jobs worker examples.tenant_sync.app:service`."""

from __future__ import annotations

from pydantic import BaseModel

from examples.tenant_sync import upstream
from trellis_jobs import ActiveJob, Jobs, KeyConcurrency, QueueDepth, Service, job


class Sync(BaseModel):
    tenant: str
    because: str


class Catalog(BaseModel):
    tenant: str
    version: int


class TenantJobs(Jobs, service="tenants"):
    # One sync of a tenant runs and one more may wait. Further requests join the waiting one, which
    # starts later and so includes their changes.
    sync = job(
        Sync,
        int,
        concurrency=50,
        key=KeyConcurrency(["/tenant"]),
        queue=QueueDepth(max_queued_per_key=1, when_full="coalesce"),
    )
    # Only the newest waiting catalog needs to be published.
    publish_catalog = job(
        Catalog,
        concurrency=50,
        key=KeyConcurrency(["/tenant"]),
        queue=QueueDepth(max_queued_per_key=1, when_full="replace-oldest"),
    )


service = Service(TenantJobs)


@service.jobs.sync.handle
async def sync(job: ActiveJob[Sync]) -> int:
    return await upstream.fetch_changes(job.payload.tenant)


@service.jobs.publish_catalog.handle
async def publish(job: ActiveJob[Catalog]) -> None:
    await upstream.upload(job.payload.tenant, job.payload.version)
