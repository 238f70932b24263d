"""Schedules on every server version, in a cluster whose leaders change, and without alarms."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime

import pytest

from tests.schedules.lab import (
    ALARMS,
    SECOND,
    TASK,
    Clockwork,
    assert_one_job_per_tick,
    clock,
    clock_producer,
    clock_worker,
    clockwork,
)
from tests.support.cluster import address, cluster
from tests.support.example_service import Report, Task, task_worker
from tests.support.servers import NEWEST, server_binary, start_version
from trellis_jobs import Cron, Every, Service
from trellis_jobs.contract.topology import CONTROL, DUE_CONSUMER
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import JobsError, ScheduleNotFound
from trellis_jobs.jetstream.client import api
from trellis_jobs.service.schedules import QueueSchedules

ROUNDS = 30
JOBS = clock(
    {
        "pulse": Every(1, payload=TASK, catch_up="all"),
        "slower": Cron("*/2 * * * * *", payload=TASK, catch_up="all"),
    }
)


@pytest.mark.parametrize("version", ["2.11.11", "2.12.8", "2.14.6", NEWEST])
async def test_each_tick_has_one_job_on_every_server(version: str) -> None:
    with start_version(version) as server:
        async with (
            clockwork(server.url) as found,
            clock_worker(server.url, JOBS),
            clock_worker(server.url, JOBS),
        ):
            assert_one_job_per_tick(await found.until_ticks("slower", 2), 2 * SECOND)
            assert_one_job_per_tick(await found.until_ticks("pulse", 4))


@pytest.mark.parametrize("version", ["2.11.11", NEWEST])
async def test_a_killed_server_loses_no_tick(version: str) -> None:
    with start_version(version) as server:
        async with clockwork(server.url) as found, clock_worker(server.url, JOBS):
            before = await found.until_ticks("slower", 1)
            server.kill()
            server.restart()
            ticks = await found.until_ticks("slower", len(before) + 2, deadline=40)
            assert_one_job_per_tick(ticks, 2 * SECOND)
            assert_one_job_per_tick(await found.ticks("pulse"))


@pytest.mark.parametrize("version", ["2.12.8", NEWEST])
@pytest.mark.timeout(180)
async def test_while_leaders_change_each_tick_has_one_job(version: str) -> None:
    with cluster(binary=server_binary(version)) as nodes:
        await nodes.until_ready()
        first, second = (task_worker(Service(JOBS, grace=0.5)).service for _ in range(2))
        async with (
            first.connect(nodes.url, replicas=3),
            second.connect(nodes.url),
            clockwork(nodes.url) as found,
        ):
            begun = await _until_ticks(found, 1)
            changing = asyncio.create_task(_change_leaders(found))
            try:
                during = await _until_ticks(found, len(begun) + 5)
            finally:
                changing.cancel()
                await asyncio.gather(changing, return_exceptions=True)
            assert_one_job_per_tick(await _until_ticks(found, len(during) + 2))
            assert_one_job_per_tick(await found.ticks("slower"), 2 * SECOND)


async def _until_ticks(found: Clockwork, count: int) -> list[datetime]:
    """While a stream has no leader, it cannot be read."""
    async with asyncio.timeout(60):
        while True:
            with suppress(JobsError):
                ticks = await found.ticks("pulse")
                if len(ticks) >= count:
                    return ticks
            await asyncio.sleep(0.1)


async def _change_leaders(found: Clockwork) -> None:
    calls = [f"STREAM.LEADER.STEPDOWN.{stream}" for stream in (CONTROL, ALARMS)]
    calls.append(f"CONSUMER.LEADER.STEPDOWN.{ALARMS}.{DUE_CONSUMER}")
    while True:
        for call in calls:
            with suppress(JobsError, TimeoutError):
                async with asyncio.timeout(2):
                    await api.request(found.raw.connection, call)
            await asyncio.sleep(0.3)


@pytest.mark.timeout(180)
async def test_a_process_sees_what_it_has_written_whichever_replica_answers() -> None:
    """A server answers itself if it has a replica, which may not have the newest write yet."""
    with cluster() as nodes:
        await nodes.until_ready()
        async with Service(clock()).connect(nodes.url, workers=False, replicas=3):
            pass
        for node in nodes.nodes:
            async with clock_producer(address("app", node.port), clock()) as jobs:
                for number in range(ROUNDS):
                    await _see_own_writes(jobs.tick.schedules, f"{node.port}-{number}")


async def _see_own_writes(schedules: QueueSchedules[Task, Report], name: str) -> None:
    made = await schedules.put(name, Every(3600, payload=TASK))
    assert (await schedules.get(name)).record == made.record
    changed = await schedules.put(name, Every(60, payload=TASK))
    assert name in [each.name for each in await schedules.list()]
    assert (await schedules.get(name)).record == changed.record
    await schedules.pause(name)
    assert (await schedules.get(name)).paused is not None
    await schedules.delete(name)
    with pytest.raises(ScheduleNotFound):
        await schedules.get(name)
    assert await schedules.list() == []


async def test_declared_schedules_without_alarms_go_on_when_a_worker_starts(
    server: EmbeddedServer,
) -> None:
    """An operator has purged the stream of alarms."""
    jobs = clock({"slow": Every(3600, payload=TASK), "pulse": Every(2, payload=TASK)})
    async with clockwork(server.url) as found:
        async with clock_worker(server.url, jobs):
            await found.until_ticks("pulse", 1)
            await found.until_record("slow", lambda _: True)
        await found.purge_alarms()
        assert await found.set_alarms() + await found.due_alarms() == 0
        before = await found.ticks("pulse")
        async with clock_worker(server.url, jobs):
            await found.until_ticks("pulse", len(before) + 2)
            assert await found.set_alarms("slow") == 1
