"""`python -m examples.tenant_sync.rounds`: asks for every tenant's sync, round after round.

What a service does beside its workers, at NATS_URL and with the credentials that the environment
names, until it is told to stop.
"""

from __future__ import annotations

import asyncio
import os

from examples.tenant_sync.app import Sync, service
from trellis_jobs import ConnectOptions

TENANTS = ("acme", "globex", "initech")


async def main() -> None:
    every = float(os.environ.get("SYNC_EVERY", "10"))
    at = ConnectOptions.from_environment()
    async with service.connect(at, workers=False), asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(ask_in_rounds(every))
        await service.wait()
        asking.cancel()


async def ask_in_rounds(pause: float) -> None:
    while True:
        for tenant in TENANTS:
            outcome = await service.jobs.sync.submit(Sync(tenant=tenant, because="the round"))
            print(f"sync {tenant}: {type(outcome).__name__}", flush=True)
        await asyncio.sleep(pause)


if __name__ == "__main__":
    asyncio.run(main())
