"""Stories of operators who move and repair the source of the work queue while jobs are created."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from tests.crash_points import parts
from tests.crash_points.mill import MILL
from tests.crash_points.stage import People, Stage, people
from tests.support.facts import until
from tests.support.lab import Probe, probe
from trellis_jobs import Service
from trellis_jobs.contract.topology import LOG, TO_WORK, WORK, Topology
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.setup.provision import provision


async def moving_the_source(stage: Stage) -> None:
    """From the subject that every service knows to a random one; the next service goes on."""
    async with probe(stage.url) as raw:
        await install(raw)
    async with creating(stage, goes_on=partial(start_a_service, stage)):
        await stage.begin(parts.provision_as_operator)


async def repairing_the_source(stage: Stage) -> None:
    """Services do not start on a source that is broken: the next operator goes on."""
    async with creating(stage, goes_on=partial(start_an_operator, stage)):
        await stage.begin(parts.repair_the_source)


async def start_a_service(stage: Stage) -> None:
    async with Service(MILL).connect(stage.url, workers=False):
        pass


async def start_an_operator(stage: Stage) -> None:
    async with probe(stage.url) as raw:
        await provision(raw.connection, Topology(raw.features, by_operator=True))


@asynccontextmanager
async def creating(
    stage: Stage, goes_on: Callable[[], Coroutine[Any, Any, None]]
) -> AsyncIterator[None]:
    """Jobs are created all the time, and each of them is in the work queue once in the end."""
    async with people(stage) as p:
        await p.create(p.jobs.plain)
        created, is_over = 1, asyncio.Event()

        async def create() -> None:
            nonlocal created
            while not is_over.is_set():
                await p.create(p.jobs.plain)
                created += 1
                await asyncio.sleep(0.02)

        task = asyncio.create_task(create())
        try:
            yield
        finally:
            await goes_on()
            is_over.set()
            await task
            await until(partial(are_at_work, p, created), "all are in the work queue")
            assert (await work(p))["last_seq"] == created


async def are_at_work(p: People, count: int) -> bool:
    return int((await work(p))["messages"]) >= count


async def work(p: People) -> dict[str, Any]:
    state: dict[str, Any] = (await api.request(p.raw.connection, f"STREAM.INFO.{WORK}"))["state"]
    return state


async def install(raw: Probe) -> None:
    """As versions did that had a fixed subject."""
    topology = Topology(raw.features)
    await api.request(raw.connection, f"STREAM.CREATE.{LOG}", topology.log())
    body = {"stream_name": LOG, "action": "create", "config": topology.to_work()}
    await api.request(raw.connection, f"CONSUMER.CREATE.{LOG}.{TO_WORK}", body)
    await api.request(raw.connection, f"STREAM.CREATE.{WORK}", topology.work())

    async def listens() -> bool:
        info = await api.request(raw.connection, f"CONSUMER.INFO.{LOG}.{TO_WORK}")
        return bool(info.get("push_bound"))

    await until(listens, "the source listens")
