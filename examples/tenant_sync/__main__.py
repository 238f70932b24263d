"""`python -m examples.tenant_sync`: many requests at once, for a few tenants."""

from __future__ import annotations

import asyncio

from examples.running import running_example
from examples.tenant_sync.app import Catalog, Sync, service
from trellis_jobs import Accepted, Coalesced, JobEnded, JobRef, Rejected, Replaced

jobs = service.jobs


async def request_syncs() -> dict[str, JobRef[int]]:
    """Returns the created jobs, by the reason of their request."""
    accepted = {}
    for tenant in ("acme", "globex"):
        for because in ("a webhook", "another one", "the hourly run", "a click"):
            match await jobs.sync.submit(Sync(tenant=tenant, because=because)):
                case Accepted(ref):
                    accepted[f"{tenant}, {because}"] = ref
                    print(f"sync {tenant}, {because}: a job")
                case Coalesced():
                    print(f"sync {tenant}, {because}: the job that waits will do")
                case Replaced() | Rejected():
                    raise AssertionError("not what this queue does")
    return accepted


async def publish_catalogs() -> dict[int, JobRef[None]]:
    """Returns the created jobs, by catalog version."""
    refs = {}
    for version in range(1, 5):
        match await jobs.publish_catalog.submit(Catalog(tenant="acme", version=version)):
            case Accepted(ref):
                print(f"catalog {version}: a job")
            case Replaced(ref):
                print(f"catalog {version}: a job, instead of the one that waited")
            case Coalesced() | Rejected():
                raise AssertionError("not what this queue does")
        refs[version] = ref
        if version == 1:
            await until_started(ref)
    return refs


async def until_started(ref: JobRef[None]) -> None:
    """Waits because a running job is never replaced."""
    async for job in ref.watch():
        if job.tries > 0:
            return


async def main() -> None:
    async with running_example(service):
        syncs = await request_syncs()
        catalogs = await publish_catalogs()
        print()
        for request, sync in syncs.items():
            print(f"sync {request}: {await sync.wait(timeout=60)} changes")
        for version, catalog in catalogs.items():
            try:
                await catalog.wait(timeout=60)
                print(f"catalog {version}: published")
            except JobEnded as ended:
                print(f"catalog {version}: {ended.state}")


if __name__ == "__main__":
    asyncio.run(main())
