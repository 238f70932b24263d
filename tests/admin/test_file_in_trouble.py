"""A projection's file that is deleted or damaged under a daemon comes back, without a new event."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest

from jobs_admin.api.client import AdminClient
from jobs_admin.api.errors import Unexpected
from jobs_admin.api.views.health import Mode
from jobs_admin.config import AdminConfig
from jobs_admin.daemon import serving
from jobs_admin.projection.files import file_id
from jobs_admin.reads.position import position
from jobs_admin.reads.readers import Readers
from tests.admin.admin_lab import AdminLab, daemon_at, until_projected
from tests.admin.made_log import rows_of
from tests.admin.projection_lab import log_lab, projecting
from tests.support.example_service import Task, TaskJobs
from tests.support.facts import until
from tests.support.lab import producer
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import Environment, utc_now
from trellis_jobs.model.states import JobState

JOBS = 120


def delete(path: Path) -> None:
    path.unlink()


def delete_with_sidecars(path: Path) -> None:
    for each in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        each.unlink(missing_ok=True)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def overwrite(path: Path) -> None:
    """In place, so that a process that has it open reads this."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.write(os.urandom(size))


def drop_a_table(path: Path) -> None:
    """The others are as they were; so is the file itself, as long as a process has it open."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("DROP TABLE job_counts")
        database.commit()


Harm = Callable[[Path], None]
every_harm = pytest.mark.parametrize(
    "harm", [delete, delete_with_sidecars, empty, cut, overwrite, drop_a_table]
)


async def create_jobs(jobs: TaskJobs) -> set[str]:
    return {(await jobs.work.create(Task(text="x" * 500))).id for _ in range(JOBS)}


async def listed(client: AdminClient) -> set[str] | None:
    """None while that is refused, and every refusal says what is the matter."""
    try:
        return {job.id async for job in client.jobs()}
    except Unexpected as refused:
        said = refused.message
        assert "is being rebuilt: " in said or "rebuilds it from the log" in said, said
        return None


@every_harm
async def test_it_comes_back_by_itself_without_requests(
    server: EmbeddedServer, tmp_path: Path, harm: Harm
) -> None:
    path = tmp_path / "jobs.sqlite"
    async with log_lab(server.url) as lab:
        await lab.write_jobs(JOBS)
        end = await lab.end()
        async with projecting(lab, path), Readers.open(path) as readers:
            rows = rows_of(path)
            assert await position(readers) == end
            with path.open("rb"):  # so that the file's identity is not given to the new one
                before = file_id(path)
                harm(path)
                await until(lambda: file_id(path) not in (None, before), "there is another file")
            assert await position(readers) == end
            assert rows_of(path) == rows


@every_harm
async def test_who_asks_is_told_and_then_answered(
    lab: AdminLab, harm: Harm, caplog: pytest.LogCaptureFixture
) -> None:
    ids = await create_jobs(lab.jobs)
    await until_projected(lab.daemon, JOBS)
    assert await listed(lab.client) == ids
    with lab.path.open("rb"):
        before = file_id(lab.path)
        harm(lab.path)

        async def answered_from_another_file() -> bool:
            found = await listed(lab.client)
            return found is not None and file_id(lab.path) not in (None, before)

        await until(answered_from_another_file, "it is answered")
    assert await listed(lab.client) == ids

    async def all_is_well() -> bool:
        return (await lab.client.health()).status == "ok"

    await until(all_is_well, "loops that could not read work again")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_reader_that_meets_damage_tells_the_projector(
    lab: AdminLab, caplog: pytest.LogCaptureFixture
) -> None:
    """Other processes cannot: the file looks as if it had not been written."""
    await create_jobs(lab.jobs)
    await until_projected(lab.daemon, JOBS)
    with lab.path.open("rb"):
        before, looks = file_id(lab.path), os.stat(lab.path)
        overwrite(lab.path)
        os.utime(lab.path, ns=(looks.st_atime_ns, looks.st_mtime_ns))

        async def refused() -> bool:
            return await listed(lab.client) is None

        await until(refused, "a request is refused")
        await until(lambda: file_id(lab.path) not in (None, before), "there is another file")
    [rebuilt] = [each for each in caplog.records if "rebuilding the projection" in each.message]
    assert rebuilt.levelname == "WARNING"


@every_harm
async def test_who_only_answers_says_what_is_the_matter_and_recovers(
    server: EmbeddedServer, tmp_path: Path, harm: Harm
) -> None:
    path = tmp_path / "jobs.sqlite"
    async with producer(server.url) as jobs:
        ids = await create_jobs(jobs)
        async with daemon_at(server.url, path) as daemon:
            await until_projected(daemon, JOBS)
        async with (
            daemon_at(server.url, path, mode=Mode.RPC_ONLY),
            AdminClient.connect(server.url, timeout=20) as client,
        ):
            harm(path)

            async def refused() -> bool:
                return await listed(client) is None

            await until(refused, "it is refused")
            projection = (await client.health()).check("projection")
            assert projection is not None
            assert "rebuilds it from the log" in (projection.error or "")
            async with daemon_at(server.url, path):

                async def answered() -> set[str] | None:
                    return await listed(client)

                assert await until(answered, "it is answered") == ids


async def test_who_changed_something_learns_where_it_is_though_it_cannot_be_shown(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """The file is gone in the moment in which the change is written into the log."""
    path = tmp_path / "jobs.sqlite"
    async with (
        producer(server.url) as jobs,
        AdminClient.connect(server.url, timeout=20) as client,
    ):
        ref = await jobs.work.create(Task())
        async with daemon_at(server.url, path) as daemon:
            await until_projected(daemon, 1)

        def when_it_is_written() -> datetime:
            delete_with_sidecars(path)
            return utc_now()

        config = AdminConfig(nats=server.url, path=path, mode=Mode.RPC_ONLY)
        async with serving(config, Environment(now=when_it_is_written)):
            with pytest.raises(Unexpected, match=r"cannot be read: .* its event has sequence 2$"):
                await client.cancel(ref.address)
        assert (await ref.get()).state is JobState.CANCELLED


async def test_nothing_is_said_to_be_done_that_was_not_begun(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    path = tmp_path / "jobs.sqlite"
    async with (
        producer(server.url) as jobs,
        AdminClient.connect(server.url, timeout=20) as client,
    ):
        ref = await jobs.work.create(Task())
        async with daemon_at(server.url, path) as daemon:
            await until_projected(daemon, 1)
        async with daemon_at(server.url, path, mode=Mode.RPC_ONLY):
            delete_with_sidecars(path)
            with pytest.raises(Unexpected) as refused:
                await client.cancel(ref.address)
        assert "done" not in refused.value.message
        assert "in the log as" not in refused.value.message
        assert (await ref.get()).state is JobState.PENDING
