"""Several admin runtimes at once, with separate files or a shared one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jobs_admin.api.client import AdminClient
from jobs_admin.api.errors import (
    Invalid,
    NotFound,
    ProjectionLocked,
    ProjectionMissing,
    ProjectionUnusable,
    Unexpected,
)
from jobs_admin.api.views.health import Mode
from jobs_admin.daemon import Daemon
from jobs_admin.projection.projector import Projector
from tests.admin.admin_lab import daemon_at, stranger_at, until_projected
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import producer, until_state, worker
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import InfrastructureMissing, ServiceMissing
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.log.feed import LogFeed
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.states import JobState


async def rows(daemon: Daemon) -> list[tuple[Any, ...]]:
    return await daemon.readers.rows("SELECT * FROM jobs_projection ORDER BY job")


async def test_two_with_files_of_their_own_answer_the_same(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        producer(server.url) as jobs,
        daemon_at(server.url, tmp_path / "one.sqlite") as one,
        daemon_at(server.url, tmp_path / "two.sqlite") as two,
        AdminClient.connect(server.url, by="ann") as client,
    ):
        refs = [await jobs.work.create(Task(text=str(n))) for n in range(20)]
        for ref in refs[:10]:
            changed = await client.cancel(ref.id)
            answers = [await client.get(ref.id, min_seq=changed.seq) for _ in range(8)]
            assert {answer.state for answer in answers} == {JobState.CANCELLED}
            assert all(answer == changed.job for answer in answers)
        for daemon in (one, two):
            await until_projected(daemon, 30)
        assert await rows(one) == await rows(two)
        assert len(await rows(one)) == 20


async def test_each_request_is_carried_out_by_one_of_them(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        producer(server.url) as jobs,
        daemon_at(server.url, tmp_path / "one.sqlite") as one,
        daemon_at(server.url, tmp_path / "two.sqlite"),
        AdminClient.connect(server.url) as client,
    ):
        refs = await asyncio.gather(*(jobs.work.create(Task()) for _ in range(40)))
        await asyncio.gather(*(client.cancel(ref.id) for ref in refs))
        for ref in refs:
            kinds = [entry.event.kind for entry in await one.events.history(ref.address)]
            assert kinds == [EventKind.CREATED, EventKind.CANCELLED]


async def test_no_request_is_lost_when_one_of_them_ends(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        producer(server.url) as jobs,
        daemon_at(server.url, tmp_path / "one.sqlite"),
        stranger_at(server.url) as stranger,
    ):
        body = {"id": (await jobs.work.create(Task())).id}
        over = asyncio.Event()

        async def keep_asking() -> int:
            answered = 0
            while not over.is_set():
                assert (await stranger.ask("Jobs.Get", body))["job"]["id"] == body["id"]
                answered += 1
            return answered

        waiting_pulls = [asyncio.create_task(keep_asking()) for _ in range(40)]
        for _ in range(5):
            async with daemon_at(server.url, tmp_path / "two.sqlite") as two:
                await until_projected(two, 1)
        over.set()
        assert all(await asyncio.gather(*waiting_pulls))


@asynccontextmanager
async def filling(url: str, path: Path) -> AsyncGenerator[Projector, None]:
    """A projection is written, and no process answers from it."""
    connection = await Connection.open(url, name="a projector alone")
    try:
        async with Projector.open(LogFeed(connection), path) as projector:
            running = asyncio.create_task(projector.run())
            try:
                await projector.until_open()
                yield projector
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
    finally:
        await connection.close()


async def test_one_that_only_answers_reads_the_file_of_another(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    path = tmp_path / "jobs.sqlite"
    async with producer(server.url) as jobs, filling(server.url, path) as projector:
        before = await jobs.work.create(Task())
        await projector.wait_for(1)
        async with (
            daemon_at(server.url, path, mode=Mode.RPC_ONLY) as answering,
            AdminClient.connect(server.url, by="ann") as client,
        ):
            names = ["worker records", "audit records", "schedule records"]
            assert list(answering.loops.all) == names
            assert (await client.get(before.id)).state is JobState.PENDING
            after = await jobs.work.create(Task(text="new"))
            assert (await client.get(after.id)).payload == Task(text="new").model_dump()
            changed = await client.cancel(after.id, reason="no need")
            assert (changed.job.state, changed.job.by) == (JobState.CANCELLED, "ann")
            listed = await client.list_jobs(min_seq=changed.seq)
            assert [job.id for job in listed.entries] == [after.id, before.id]
            with pytest.raises(NotFound):
                await client.get("01NOSUCH")
            with pytest.raises(Invalid, match="the log ends at 3"):
                await client.list_jobs(min_seq=4)
            async with worker(server.url, "work"):
                await before.wait(timeout=20)
                await until_state(before, JobState.COMPLETED)

                async def completed() -> bool:
                    return (await client.get(before.id)).state is JobState.COMPLETED

                await until(completed, "it is projected")


async def test_a_file_has_one_writer(server: EmbeddedServer, tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    async with producer(server.url), daemon_at(server.url, path):
        with pytest.raises(ProjectionLocked, match="--mode rpc-only"):
            async with daemon_at(server.url, path):
                pass
    async with daemon_at(server.url, path):
        pass


async def test_who_only_answers_needs_a_file(server: EmbeddedServer, tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    async with producer(server.url):
        with pytest.raises(ProjectionMissing, match="admin serve --db"):
            async with daemon_at(server.url, path, mode=Mode.RPC_ONLY):
                pass
    assert not path.exists()


async def test_a_folder_that_cannot_be_written_is_named(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    async with producer(server.url):
        with pytest.raises(ProjectionUnusable, match="choose another --db"):
            async with daemon_at(server.url, tmp_path / "file" / "jobs.sqlite"):
                pass


async def test_missing_streams_are_named_with_what_to_do(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    path = tmp_path / "jobs.sqlite"
    with pytest.raises(InfrastructureMissing, match=r"JOBS, .*JOBS_WORK, .* --provision"):
        async with daemon_at(server.url, path):
            pass
    async with daemon_at(server.url, path, provision=True), producer(server.url) as jobs:
        ref = await jobs.work.create(Task())
        async with AdminClient.connect(server.url) as client:
            assert (await client.get(ref.id)).state is JobState.PENDING


async def test_requests_under_way_are_answered_before_the_end(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, stranger_at(server.url) as stranger:
        refs = await asyncio.gather(*(jobs.work.create(Task()) for _ in range(100)))
        async with daemon_at(server.url, tmp_path / "jobs.sqlite"):
            sent = [
                asyncio.create_task(stranger.ask("Jobs.Cancel", {"id": ref.id})) for ref in refs
            ]
            await asyncio.wait(sent, return_when=asyncio.FIRST_COMPLETED)
            await stranger.connection.flush()
        answers = await asyncio.gather(*sent)
        assert {answer["job"]["state"] for answer in answers} == {"cancelled"}
        with pytest.raises(ServiceMissing):
            await stranger.ask("Jobs.Health")


async def test_a_job_that_is_not_projected_yet_is_not_said_to_be_missing(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    path = tmp_path / "jobs.sqlite"
    async with producer(server.url) as jobs:
        async with filling(server.url, path) as projector:
            await jobs.work.create(Task())
            await projector.wait_for(1)
        async with (
            daemon_at(server.url, path, mode=Mode.RPC_ONLY),
            AdminClient.connect(server.url) as client,
        ):
            with pytest.raises(NotFound):
                await client.get("01NOSUCH")
            ref = await jobs.work.create(Task())
            for ask in (client.get, client.explain, client.list_events, client.cancel):
                with pytest.raises(Unexpected, match="the projection is at 1 of 2"):
                    await ask(ref.id)
            assert (await client.explain(ref.address)).state is JobState.PENDING
