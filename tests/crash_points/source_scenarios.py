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
from tests.support.facts import DEADLINE, until
from tests.support.former_installation import FIXED, install
from tests.support.lab import probe
from trellis_jobs import Service
from trellis_jobs.contract.topology import WORK, Topology
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.jetstream.setup.work_source import read_work_source
from trellis_jobs.jetstream.work.messages import WorkMessages
from trellis_jobs.model.subjects import ALL_WORK


async def moving_the_source(stage: Stage) -> None:
    """From the subject that every service knows to a random one; the next service goes on."""
    async with probe(stage.url) as raw:
        await install(raw, FIXED)
    async with creating(stage, goes_on=partial(start_a_service, stage)):
        await stage.begin(parts.provision_as_operator)


async def adding_lanes(stage: Stage) -> None:
    """To a work queue of an earlier version; the next service goes on, and an operator ends it."""
    async with probe(stage.url) as raw:
        await install(raw)
    async with creating(stage, goes_on=partial(start_both, stage)):
        await stage.begin(parts.provision_as_operator)


async def repairing_the_source(stage: Stage) -> None:
    """Services do not start on a source that is broken: the next operator goes on."""
    async with creating(stage, goes_on=partial(start_an_operator, stage)):
        await stage.begin(parts.repair_the_source)


async def start_a_service(stage: Stage) -> None:
    async with Service(MILL).connect(stage.url, workers=False, connect_timeout=DEADLINE):
        pass


async def start_an_operator(stage: Stage) -> None:
    async with probe(stage.url) as raw:
        await provision(raw.connection, Topology(raw.features, by_operator=True))


async def adding_lanes_to_a_plain_source(stage: Stage) -> None:
    """On a server before 2.14, which copies some jobs again."""
    async with probe(stage.url) as raw:
        await install(raw)
    async with creating(stage, goes_on=partial(start_both, stage), plain=True):
        await stage.begin(parts.provision_as_operator)


async def start_both(stage: Stage) -> None:
    await start_a_service(stage)
    await start_an_operator(stage)
    async with probe(stage.url) as raw:
        found = await read_work_source(raw.connection, Topology(raw.features))
    assert not found.lacks_lanes
    assert not found.is_unfinished


@asynccontextmanager
async def creating(
    stage: Stage, goes_on: Callable[[], Coroutine[Any, Any, None]], *, plain: bool = False
) -> AsyncIterator[None]:
    """Jobs are created all the time, and each of them is in the work queue once in the end.

    With a `plain` source some may be there twice; workers drop those.
    """
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
            assert plain or (await work(p))["last_seq"] == created


async def are_at_work(p: People, count: int) -> bool:
    return await WorkMessages(p.raw.connection).count_jobs(ALL_WORK) == count


async def work(p: People) -> dict[str, Any]:
    state: dict[str, Any] = (await api.request(p.raw.connection, f"STREAM.INFO.{WORK}"))["state"]
    return state
