"""`python -m examples.tenant_sync.rounds`: requests a sync of every tenant, again and again.

It connects to NATS_URL with the credentials in the environment, runs no workers, and stops on a
signal.
"""

from __future__ import annotations

import asyncio
import os

from examples.tenant_sync.app import Sync, service
from trellis_jobs import ConnectOptions

TENANTS = ("acme", "globex", "initech")


async def main() -> None:
    interval = float(os.environ.get("SYNC_EVERY", "10"))
    options = ConnectOptions.from_environment()
    async with service.connect(options, workers=False), asyncio.TaskGroup() as tasks:
        requesting = tasks.create_task(request_in_rounds(interval))
        await service.wait()
        requesting.cancel()


async def request_in_rounds(interval: float) -> None:
    while True:
        for tenant in TENANTS:
            outcome = await service.jobs.sync.submit(Sync(tenant=tenant, because="the round"))
            print(f"sync {tenant}: {type(outcome).__name__}", flush=True)
        await asyncio.sleep(interval)


if __name__ == "__main__":
    asyncio.run(main())
