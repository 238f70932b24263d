"""The work queue and its source as the server has them, and jobs that come all the time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.example_service import Task, TaskWorker
from tests.support.facts import until
from tests.support.lab import Probe, worker
from trellis_jobs.contract.topology import Config, Topology
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.setup.provision import ProvisionReport, provision


async def consumer(raw: Probe) -> dict[str, Any]:
    return await api.request(raw.connection, "CONSUMER.INFO.JOBS.to-work")


async def work(raw: Probe) -> dict[str, Any]:
    return await api.request(raw.connection, "STREAM.INFO.JOBS_WORK")


async def set_sources(raw: Probe, *sources: Config) -> None:
    config = (await work(raw))["config"] | {"sources": list(sources)}
    await api.request(raw.connection, "STREAM.UPDATE.JOBS_WORK", config)


async def apply(raw: Probe) -> ProvisionReport:
    return await provision(raw.connection, Topology(raw.features, by_operator=True))


@asynccontextmanager
async def busy(url: str, raw: Probe, *, plain: bool = False) -> AsyncIterator[TaskWorker]:
    """Jobs come all the time; at the end each of them ran once, from one work message.

    A `plain` source may have copied some of them again, which workers drop.
    """
    before = (await work(raw))["state"]["last_seq"]
    async with worker(url, "work") as at_work:
        refs, stop = [], asyncio.Event()

        async def create() -> None:
            while not stop.is_set():
                refs.extend(await at_work.jobs.work.create_many([Task()] * 20))
                await asyncio.sleep(0.01)

        creating = asyncio.create_task(create())
        await until(lambda: len(at_work.runs) > 50, "jobs run")
        yield at_work
        stop.set()
        await creating
        for ref in refs:
            await ref.wait(timeout=20)
        assert sorted(at_work.runs) == sorted((ref.id, 1) for ref in refs)
        copied = (await work(raw))["state"]["last_seq"] - before
        assert copied >= len(refs) if plain else copied == len(refs)
