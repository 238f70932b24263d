"""A service for the worker command. Environment variables make its resource fail or hang."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from tests.support.example_service import example_jobs
from trellis_jobs import ActiveJob, Service

DEPOT: Final = example_jobs(
    "depot",
    str,
    str,
    store={},
)


service = Service(DEPOT)


@service.lifespan
@asynccontextmanager
async def shelf() -> AsyncIterator[list[str]]:
    print("shelf opened", flush=True)
    try:
        yield []
    finally:
        print("shelf closed", flush=True)


@service.lifespan
@asynccontextmanager
async def lift() -> AsyncIterator[None]:
    match os.environ.get("LIFT"):
        case "fails":
            raise OSError("no power")
        case "hangs":
            print("lift hangs", flush=True)
            await asyncio.Event().wait()
    yield
    if os.environ.get("LIFT") == "hangs at the end":
        print("lift hangs at the end", flush=True)
        await asyncio.Event().wait()


@service.jobs.store.handle
async def store(job: ActiveJob[str]) -> str:
    shelf.get().append(job.payload)
    print(f"stored {job.payload}", flush=True)
    return job.payload
