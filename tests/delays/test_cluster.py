"""Delayed jobs in a cluster whose streams change their leaders while the jobs come due.

2.12 publishes some alarms twice then. `make delays-long` runs this with more jobs and on more
versions, and kills servers too.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Final

import pytest

from tests.delays.delay_lab import ALARMS, Ledger, ledger, worker
from tests.support.cluster import Cluster, cluster
from tests.support.example_service import Task
from tests.support.servers import NEWEST, server_binary
from trellis_jobs.contract.topology import DUE_CONSUMER, KEYS, LOG, WORK
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client import api
from trellis_jobs.model.events import EventKind

IS_LONG: Final = "DELAYS_LONG" in os.environ
LONG: Final = (
    pytest.mark.skipif(not IS_LONG, reason="takes minutes: `make delays-long` runs it"),
    pytest.mark.timeout(600),
)
JOBS: Final = 2_000 if IS_LONG else 200
SECONDS: Final = 30.0 if IS_LONG else 5.0
STREAMS: Final = (ALARMS, LOG, WORK, KEYS)


@asynccontextmanager
async def three_servers(version: str) -> AsyncIterator[Cluster]:
    """With three replicas of every stream."""
    with cluster(binary=server_binary(version)) as nodes:
        await nodes.until_ready()
        async with worker(nodes.url, replicas=3):
            pass
        yield nodes


async def step_down(books: Ledger, call: str) -> None:
    """While there is no leader, there is none to step down."""
    with suppress(JobsError, TimeoutError):
        async with asyncio.timeout(2):
            await api.request(books.raw.connection, call)


async def change_leaders(books: Ledger, pause: float) -> None:
    """Of the alarms, of the log, and of the consumer of the alarms, one after the other."""
    calls = [f"STREAM.LEADER.STEPDOWN.{stream}" for stream in STREAMS[:2]]
    calls.append(f"CONSUMER.LEADER.STEPDOWN.{ALARMS}.{DUE_CONSUMER}")
    while True:
        for call in calls:
            await step_down(books, call)
            await asyncio.sleep(pause)


@pytest.mark.parametrize(
    "version",
    [
        "2.12.8",
        NEWEST,
        pytest.param("2.11.11", marks=LONG),
        pytest.param("2.14.6", marks=LONG),
    ],
)
async def test_while_leaders_change_each_job_is_released_once_and_never_early(
    version: str,
) -> None:
    chance = Random(12)  # noqa: S311 - the same every time
    async with (
        three_servers(version) as nodes,
        ledger(nodes.url) as books,
        worker(nodes.url) as bench,
        worker(nodes.url),
    ):
        refs = await asyncio.gather(
            *(
                (bench.jobs.work if n % 4 else bench.jobs.waiting).create(
                    Task(key=f"key-{n}"), delay=1 + chance.uniform(0, SECONDS)
                )
                for n in range(JOBS)
            )
        )
        changing = asyncio.create_task(change_leaders(books, 0.25))
        try:
            await until_released(books, JOBS)
        finally:
            changing.cancel()
            await asyncio.gather(changing, return_exceptions=True)
        await books.until_all_ran(refs, deadline=90)


async def until_released(books: Ledger, count: int) -> None:
    """As long as leaders change. If it takes too long, the rest is released in peace."""
    async with asyncio.timeout(SECONDS * 3):
        with suppress(TimeoutError):
            while True:
                with suppress(JobsError):
                    if await books.count(EventKind.CREATED) >= count:
                        return
                await asyncio.sleep(0.2)


@pytest.mark.parametrize("version", [pytest.param(v, marks=LONG) for v in ("2.12.8", NEWEST)])
async def test_while_servers_are_killed_each_job_is_released_once_and_never_early(
    version: str,
) -> None:
    chance = Random(13)  # noqa: S311 - the same every time
    async with (
        three_servers(version) as nodes,
        ledger(nodes.url) as books,
        worker(nodes.url) as bench,
        worker(nodes.url),
    ):
        refs = await asyncio.gather(
            *(
                bench.jobs.work.create(Task(), delay=1 + chance.uniform(0, SECONDS))
                for _ in range(JOBS)
            )
        )
        for _ in range(4):
            node = chance.choice(nodes.nodes)
            await asyncio.to_thread(node.kill)
            await asyncio.sleep(3)
            await asyncio.to_thread(node.restart)
            await asyncio.sleep(3)
        await books.until_all_ran(refs, deadline=180)


async def test_a_new_stream_of_alarms_has_as_many_replicas_as_the_log() -> None:
    """As after an upgrade: the log has three, and the service asks for no number."""
    async with three_servers(NEWEST) as nodes, ledger(nodes.url) as books:
        await books.delete_alarms()
        async with worker(nodes.url):
            info = await api.request(books.raw.connection, f"STREAM.INFO.{ALARMS}")
            assert info["config"]["num_replicas"] == 3
