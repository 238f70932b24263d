"""A projection that is lost, damaged, outdated or of another log is made again from the log."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from jobs_admin.api.errors import ProjectionUnusable
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.projection.files import FileLocked, file_id
from jobs_admin.projection.rebuild import RebuildInProgress, rebuild, temporary_file
from jobs_admin.reads import jobs as reads
from jobs_admin.reads.position import position
from jobs_admin.reads.readers import Readers
from tests.admin.admin_lab import daemon_at, until_projected
from tests.admin.made_log import rows_of
from tests.admin.projection_lab import LogLab, log_lab, projecting, until_at
from tests.support.facts import DEADLINE, until
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.pull_consumer import PULL_SECONDS
from trellis_jobs.jetstream.log.feed import LogExtent, LogFeed


@pytest.fixture
async def lab(server: EmbeddedServer) -> AsyncIterator[LogLab]:
    async with log_lab(server.url) as made:
        yield made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "jobs.sqlite"


async def projected(lab: LogLab, path: Path) -> None:
    """A projection that was filled as the log grew, and closed."""
    async with projecting(lab, path) as projector:
        await lab.write_jobs(30)
        await until_at(projector, await lab.end())


def delete(path: Path) -> None:
    path.unlink()


def write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def content(path: Path) -> bytes:
    return path.read_bytes()


async def test_a_deleted_file_comes_back_equal_row_by_row(lab: LogLab, path: Path) -> None:
    await projected(lab, path)
    before = rows_of(path)
    delete(path)
    async with projecting(lab, path) as projector:
        await until_at(projector, await lab.end())
    assert rows_of(path) == before
    assert before["jobs_projection"]
    assert await lab.fresh_rows(path.parent) == before


async def test_a_file_deleted_under_a_running_projector_comes_back(lab: LogLab, path: Path) -> None:
    async with projecting(lab, path) as projector:
        await lab.write_jobs(20)
        await until_at(projector, await lab.end())
        delete(path)
        await lab.write_jobs(10)
        await until_at(projector, await lab.end())
    assert rows_of(path) == await lab.fresh_rows(path.parent)


async def test_an_outdated_file_is_rebuilt(lab: LogLab, path: Path) -> None:
    await projected(lab, path)
    before = rows_of(path)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "UPDATE projection_metadata SET value = '0' WHERE name = 'schema_version';"
            "ALTER TABLE jobs_projection DROP COLUMN lines"
        )
    async with projecting(lab, path):
        assert rows_of(path) == before


@pytest.mark.parametrize("damage", [b"not a database at all\n" * 500, b"SQLite format 3\x00" * 300])
async def test_a_file_that_is_no_database_is_kept_and_replaced(
    lab: LogLab, path: Path, damage: bytes
) -> None:
    await projected(lab, path)
    before = rows_of(path)
    write(path, damage)
    async with projecting(lab, path):
        assert rows_of(path) == before
    assert content(path.with_name("jobs.sqlite.damaged")) == damage


async def test_damage_that_shows_only_later_is_mended(lab: LogLab, path: Path) -> None:
    await projected(lab, path)
    good = content(path)
    write(path, good[: 4096 * 3] + os.urandom(len(good) - 4096 * 3))
    async with projecting(lab, path) as projector:
        await lab.write_jobs(20)
        await until_at(projector, await lab.end())
        await until(lambda: path.with_name("jobs.sqlite.damaged").exists(), "it is noticed")
        await lab.write_jobs(10)
        await until_at(projector, await lab.end())
    assert rows_of(path) == await lab.fresh_rows(path.parent)


async def test_a_row_that_is_no_job_any_more_is_mended(lab: LogLab, path: Path) -> None:
    await projected(lab, path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE jobs_projection SET document = '{}'")
        database.commit()
    async with projecting(lab, path) as projector:
        [*_, again] = [message for message in lab.scribe.messages if "job-3." in message.subject]
        lab.scribe.add(again.subject, again.data)
        await lab.send()
        await until_at(projector, await lab.end())
    assert rows_of(path) == await lab.fresh_rows(path.parent)


async def test_a_database_of_another_program_is_not_touched(lab: LogLab, path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as database:
        database.executescript("CREATE TABLE letters (text); INSERT INTO letters VALUES ('dear')")
    before = content(path)
    with pytest.raises(
        ProjectionUnusable, match="it is a SQLite file, but not a trellis-jobs projection"
    ):
        async with projecting(lab, path):
            pass
    assert content(path) == before


async def test_a_log_that_was_created_again_is_projected_again(lab: LogLab, path: Path) -> None:
    await projected(lab, path)
    await lab.delete_log()
    await lab.make_log()
    await lab.write_jobs(10)
    async with projecting(lab, path) as projector:
        await until_at(projector, await lab.end())
    assert len(rows_of(path)["jobs_projection"]) == 10
    assert rows_of(path) == await lab.fresh_rows(path.parent)


async def test_a_log_created_again_under_a_running_projector_is_noticed(
    lab: LogLab, path: Path
) -> None:
    async with projecting(lab, path) as projector:
        await lab.write_jobs(20)
        await until_at(projector, await lab.end())
        await lab.delete_log()
        await lab.make_log()
        await lab.write_jobs(10)
        end = await lab.end()
        await until(lambda: projector.position == end, "the new log is projected")
    assert rows_of(path) == await lab.fresh_rows(path.parent)


async def test_a_log_that_lost_its_end_is_projected_again(lab: LogLab, path: Path) -> None:
    """As after a power cut, or a restore of a backup; new events have taken the same numbers."""
    await projected(lab, path)
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            "UPDATE projection_metadata SET value = value + 1000 WHERE name = 'position_stored_ns'"
        )
        database.execute("UPDATE jobs_projection SET state = 'dead'")
        database.commit()
    async with projecting(lab, path) as projector:
        await lab.write_jobs(10)
        await until_at(projector, await lab.end())
    assert rows_of(path) == await lab.fresh_rows(path.parent)


async def test_heartbeats_that_expired_at_the_end_of_the_log_do_not_hold_up_a_rebuild(
    lab: LogLab, path: Path
) -> None:
    await lab.write_jobs(10)
    lab.scribe.beat("pod-1").beat("pod-2")
    await lab.send()
    end = await lab.end()
    for sequence in (end, end - 1):
        await api.request(lab.connection, "STREAM.MSG.DELETE.JOBS", {"seq": sequence})
    async with asyncio.timeout(0.8 * PULL_SECONDS):  # a pull that brings nothing lasts longer
        filled = await rebuild(path, lab.feed)
    assert filled.position == end
    assert dict(rows_of(path)["projection_metadata"])["position"] == str(end)


async def test_an_empty_log_makes_an_empty_projection_that_goes_on(lab: LogLab, path: Path) -> None:
    async with asyncio.timeout(DEADLINE):
        assert (await rebuild(path, lab.feed)).position == 0
    async with projecting(lab, path) as projector:
        await lab.write_jobs(10)
        await until_at(projector, await lab.end())
    assert len(rows_of(path)["jobs_projection"]) == 10


async def test_a_rebuild_under_a_running_projector_loses_nothing_and_goes_on(
    lab: LogLab, path: Path
) -> None:
    """Readers and projector have the old file open; both go on with the new one."""
    async with projecting(lab, path) as projector, Readers.open(path) as readers:
        await lab.write_jobs(50)
        await until_at(projector, await lab.end())
        before = file_id(path)
        writing = asyncio.create_task(lab.write_jobs(300))
        seen = [await _count(readers)]
        with path.open("rb"):  # so that the file's identity is not given to another
            for _ in range(3):
                await rebuild(path, lab.feed)
                seen.append(await _count(readers))
            await writing
            await until_at(projector, await lab.end())
            assert file_id(path) != before
        assert await _count(readers) == 350
        assert seen == sorted(seen)
    assert rows_of(path) == await lab.fresh_rows(path.parent)


async def test_what_was_shown_during_a_rebuild_is_in_the_new_file(lab: LogLab, path: Path) -> None:
    """Others fill the old file, and are answered from it, while the new one is made."""

    class Meanwhile(LogFeed):
        async def extent(self) -> LogExtent:
            found = await super().extent()
            if await lab.end() == before:
                await projected(lab, path)
            return found

    await projected(lab, path)
    before = await lab.end()
    await rebuild(path, Meanwhile(lab.connection))
    async with Readers.open(path) as readers:
        assert await position(readers) == await lab.end()
    assert rows_of(path) == await lab.fresh_rows(path.parent)


async def test_progress_is_told_from_the_first_event_to_the_last(lab: LogLab, path: Path) -> None:
    await lab.write_jobs(900)
    end, told = await lab.end(), list[tuple[int, int]]()
    await rebuild(path, lab.feed, lambda done, total: told.append((done, total)))
    assert told[-1] == (end, end)
    assert len(told) > 1
    assert told == sorted(told)


async def test_a_file_that_another_process_has_locked_is_not_replaced(
    lab: LogLab, path: Path
) -> None:
    await projected(lab, path)
    before, rows = file_id(path), rows_of(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(FileLocked, match="has locked the projection's file"):
            await rebuild(path, lab.feed, lock_timeout=0.1)
        other.execute("ROLLBACK")
    assert (file_id(path), rows_of(path)) == (before, rows)
    await rebuild(path, lab.feed, lock_timeout=0.1)
    assert file_id(path) != before


async def test_a_projector_that_waits_for_the_file_in_vain_says_so_and_goes_on(
    server: EmbeddedServer, lab: LogLab, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As during a swap that takes long: no mistake of ours, that a person must look at."""
    async with daemon_at(server.url, path) as daemon:
        await lab.write_jobs(10)
        await until_projected(daemon, await lab.end())
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            await lab.write_jobs(10)
            await until(lambda: daemon.loops.all["projector"].failures, "it waited without success")
            other.execute("ROLLBACK")
        await until_projected(daemon, await lab.end())
    [said] = [each for each in caplog.records if getattr(each, "loop", None) == "projector"]
    assert (said.levelname, said.exc_info) == ("WARNING", None)
    assert "FileLocked" in getattr(said, "error", "")


async def test_two_rebuilds_of_one_file_do_not_meet(lab: LogLab, path: Path) -> None:
    with temporary_file(path, "rebuilding"), pytest.raises(RebuildInProgress):
        await rebuild(path, lab.feed)
    assert file_id(path) is None


async def test_a_rebuild_that_was_killed_leaves_nothing_in_the_way(lab: LogLab, path: Path) -> None:
    await projected(lab, path)
    write(path.with_name("jobs.sqlite.rebuilding"), b"half of something")
    await rebuild(path, lab.feed)
    left = {each.name for each in os.scandir(path.parent)}
    assert left <= {"jobs.sqlite", "jobs.sqlite.rebuilding.lock", "jobs.sqlite.lock"}


async def _count(readers: Readers) -> int:
    return (await reads.page(readers, JobFilter(), offset=0, limit=1)).count
