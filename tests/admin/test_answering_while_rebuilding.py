"""A daemon that has to rebuild its projection first answers meanwhile, and says how far it is."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from jobs_admin.api.client import AdminClient
from jobs_admin.api.errors import Unexpected
from jobs_admin.api.views.health import HealthStatus, HealthView
from jobs_admin.projection.rebuild_progress import RebuildProgress
from tests.admin.admin_lab import daemon_at, until_projected
from tests.admin.test_health import get
from tests.support.example_service import Task, TaskJobs
from tests.support.facts import until
from tests.support.lab import producer
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.states import JobState

JOBS = 20
REBUILT = "rebuilding the projection "


@contextmanager
def held_up(path: Path) -> Iterator[sqlite3.Connection]:
    """Of an old schema, so it is rebuilt; and locked, so that the new file waits for its place."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("UPDATE projection_metadata SET value = '0' WHERE name = 'schema_version'")
        database.execute("BEGIN IMMEDIATE")
        yield database


@asynccontextmanager
async def jobs_and_an_old_file(url: str, path: Path) -> AsyncIterator[TaskJobs]:
    async with producer(url) as jobs:
        for n in range(JOBS):
            await jobs.work.create(Task(text=str(n)))
        async with daemon_at(url, path) as daemon:
            await until_projected(daemon, JOBS)
        yield jobs


async def test_it_says_how_far_it_is_and_changes_jobs_by_the_log(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    path = tmp_path / "jobs.sqlite"
    async with jobs_and_an_old_file(server.url, path) as jobs:
        ref = await jobs.work.create(Task())
        with held_up(path) as old:
            async with (
                daemon_at(server.url, path, health_port=0) as daemon,
                AdminClient.connect(server.url, timeout=20) as client,
            ):
                health = await until(partial(has_read, client, 21), "only its place is missing")
                assert health.status is HealthStatus.DEGRADED
                with pytest.raises(Unexpected, match="is being rebuilt: 21 of 21 messages"):
                    await client.list_jobs()
                assert daemon.health_port
                assert (await get(daemon.health_port, "/live"))[0] == 200
                assert (await get(daemon.health_port, "/ready"))[0] == 503
                with pytest.raises(Unexpected, match="its event has sequence 22"):
                    await client.cancel(ref.address)
                assert (await ref.get()).state is JobState.CANCELLED
                old.execute("ROLLBACK")

                async def all_is_well() -> bool:
                    return (await client.health()).status is HealthStatus.OK

                await until(all_is_well, "it is rebuilt")
                assert (await client.get(ref.id, min_seq=22)).state is JobState.CANCELLED
                assert (await client.list_jobs()).count == JOBS + 1
                assert (await get(daemon.health_port, "/ready"))[0] == 200


async def has_read(client: AdminClient, messages: int) -> HealthView | None:
    told = await client.health()
    projection = told.check("projection")
    under_way = projection.rebuilding if projection else None
    is_all = under_way and (under_way.messages, under_way.of) == (messages, messages)
    return told if is_all else None


async def test_loops_that_read_it_wait_and_do_not_fail(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    path = tmp_path / "jobs.sqlite"
    async with jobs_and_an_old_file(server.url, path):
        with held_up(path) as old:
            async with daemon_at(server.url, path) as daemon:
                janitor = daemon.loops.all["janitor"]
                assert janitor.last_success is None
                old.execute("ROLLBACK")
                await until(lambda: janitor.last_success, "it has had a turn")
                assert [loop.name for loop in daemon.loops.all.values() if loop.failures] == []


async def test_others_answer_if_there_are_any(
    server: EmbeddedServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = tmp_path / "jobs.sqlite"

    async def be_there(started: asyncio.Event) -> None:
        async with daemon_at(server.url, path):
            started.set()
            await asyncio.Event().wait()

    async with (
        jobs_and_an_old_file(server.url, path),
        daemon_at(server.url, tmp_path / "other.sqlite"),
        AdminClient.connect(server.url, timeout=20) as client,
    ):
        with held_up(path) as old:
            started = asyncio.Event()
            running = asyncio.create_task(be_there(started))
            await until(
                lambda: "other admin runtimes answer requests until" in caplog.text,
                "it leaves requests to the other",
            )
            answers = await asyncio.gather(*(client.list_jobs() for _ in range(50)))
            assert {answer.count for answer in answers} == {JOBS}
            old.execute("ROLLBACK")
            await started.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_the_first_file_of_all_is_nothing_to_warn_of(
    server: EmbeddedServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = tmp_path / "jobs.sqlite"
    async with producer(server.url), daemon_at(server.url, path):
        [first] = [record for record in caplog.records if REBUILT in record.message]
        assert first.levelname == "INFO"
        path.unlink()
        await until(lambda: caplog.text.count(REBUILT) == 2, "it is made again")
    assert [each.levelname for each in caplog.records if REBUILT in each.message][1] == "WARNING"


def test_progress_is_said_every_few_seconds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    seconds = 0.0
    progress = RebuildProgress(Path("jobs.sqlite"), lambda: seconds)
    for done in range(0, 14_000, 1_000):
        progress.tell(done, 90_000)
        seconds += 1
    said = [vars(record) for record in caplog.records]
    assert [(each["messages"], each["of"]) for each in said] == [(5_000, 90_000), (10_000, 90_000)]
    assert (progress.done, progress.total) == (13_000, 90_000)
