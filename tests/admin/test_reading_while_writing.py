"""Questions get answers of one moment, whatever is written meanwhile."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jobs_admin.api.job_filter import JobFilter
from jobs_admin.reads import jobs as reads
from jobs_admin.reads.readers import Readers
from tests.admin.projection_lab import LogLab, log_lab, projecting, until_at
from tests.support.facts import until
from trellis_jobs.embedded import EmbeddedServer


@pytest.fixture
async def lab(server: EmbeddedServer) -> AsyncIterator[LogLab]:
    async with log_lab(server.url) as made:
        yield made


async def test_several_questions_to_one_moment_agree(lab: LogLab, tmp_path: Path) -> None:
    path, looks = tmp_path / "jobs.sqlite", 0
    async with projecting(lab, path) as projector, Readers.open(path) as readers:
        writing = asyncio.create_task(lab.write_jobs(500))
        while not writing.done() or looks < 10:
            async with readers.snapshot() as database:
                [(counted,)] = await database.execute_fetchall(
                    "SELECT coalesce(sum(jobs), 0) FROM job_counts"
                )
                [(rows,)] = await database.execute_fetchall("SELECT count(*) FROM jobs_projection")
                [(newest,)] = await database.execute_fetchall(
                    "SELECT coalesce(max(last_sequence), 0) FROM jobs_projection"
                )
                [(position,)] = await database.execute_fetchall(
                    "SELECT coalesce(max(value + 0), 0) FROM projection_metadata "
                    "WHERE name = 'position'"
                )
            assert counted == rows
            assert newest <= position
            looks += 1
        await until_at(projector, await lab.end())


async def test_pages_are_whole_and_in_order_while_jobs_come_in(lab: LogLab, tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    async with projecting(lab, path) as projector, Readers.open(path) as readers:
        writing, seen = asyncio.create_task(lab.write_jobs(500)), 0
        while not writing.done() or seen < 500:
            page = await reads.page(readers, JobFilter(), offset=0, limit=50)
            assert page.count >= seen
            assert len(page.documents) == min(50, page.count)
            seen = page.count
        await until_at(projector, await lab.end())


async def test_a_read_that_is_cancelled_while_its_file_opens_leaves_no_thread_behind(
    tmp_path: Path,
) -> None:
    """The thread used to outlive the event loop of a daemon that ended soon after its start."""
    pipe = tmp_path / "jobs.sqlite"
    os.mkfifo(pipe)  # opening it for reading takes until it is opened for writing
    threads = set(threading.enumerate())
    async with Readers.open(pipe) as readers:
        reading = asyncio.create_task(readers.rows("SELECT 1"))
        await until(lambda: set(threading.enumerate()) - threads, "a thread opens the file")
        reading.cancel()
        await asyncio.wait([reading], timeout=0.5)
        assert not reading.done(), "it waits for its thread"
        os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))
        with pytest.raises(asyncio.CancelledError):
            await reading
    await until(lambda: set(threading.enumerate()) <= threads, "its thread has ended")
