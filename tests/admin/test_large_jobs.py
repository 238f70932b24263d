"""Jobs of any size: what is at hand of them at a time is bounded in bytes, not in jobs."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs_admin.api.client import AdminClient
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.projection.ingest import Ingest
from jobs_admin.projection.rebuild import rebuild
from jobs_admin.projection.store import Projection
from jobs_admin.reads import candidates
from jobs_admin.reads import jobs as reads
from jobs_admin.reads.candidates import PageEnd
from jobs_admin.reads.readers import Readers
from tests.admin.admin_lab import daemon_at, until_projected
from tests.admin.made_log import large_job, large_jobs, logs, of, rows_of
from tests.admin.projection_lab import LogLab, log_lab
from tests.given import NOON, started
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.log.feed import LogMessage, LogPosition
from trellis_jobs.model.states import JobState

LARGE: Final = 200_000
JOBS: Final = 150
ALL: Final = LARGE * JOBS
VERY_LARGE: Final = 900_000
MANY: Final = 90
LATER: Final = NOON + timedelta(days=1)


@contextmanager
def at_most(limit: int) -> Iterator[None]:
    """Python's objects take no more at any moment; sooner or later all of them would be there."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < limit


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("large")


@pytest.fixture
async def readers(folder: Path) -> AsyncIterator[Readers]:
    """Of a projection of large jobs, all of them late and quiet."""
    path = folder / "jobs.sqlite"
    if not path.exists():
        async with Projection.open(path) as projection:
            await Ingest(projection, LogPosition()).apply(large_jobs(JOBS, LARGE).messages)
    async with Readers.open(path) as opened:
        yield opened


async def test_a_page_of_candidates_is_not_all_their_payloads(readers: Readers) -> None:
    with at_most(ALL // 2):
        late = await candidates.overdue(readers, LATER, after=PageEnd(), limit=500)
        quiet = await candidates.resting(
            readers, JobState.PENDING, LATER, after=PageEnd(), limit=500
        )
    assert (
        [each.job for each in late]
        == [each.job for each in quiet]
        == [*map(large_job, range(JOBS))]
    )


async def test_a_list_reads_no_more_jobs_than_its_answer_has_room_for(readers: Readers) -> None:
    with at_most(ALL // 2):
        page = await reads.page(readers, JobFilter(), offset=0, limit=500, max_bytes=1_000_000)
    assert (page.count, len(page.documents), page.is_last) == (JOBS, 5, False)
    assert len(page.cursors) == 5


@asynccontextmanager
async def filled(path: Path, messages: list[LogMessage], room: int) -> AsyncIterator[Ingest]:
    async with Projection.open(path) as projection:
        ingest = Ingest(projection, LogPosition(), max_bytes=room)
        await ingest.apply(messages)
        yield ingest


async def test_the_jobs_that_are_remembered_have_a_size(tmp_path: Path) -> None:
    room = 10 * LARGE
    async with filled(tmp_path / "jobs.sqlite", large_jobs(JOBS, LARGE).messages, room) as ingest:
        assert LARGE < ingest.bytes_known <= room


async def test_small_events_of_large_jobs_are_taken_in_a_few_jobs_at_a_time(
    tmp_path: Path,
) -> None:
    path, scribe = tmp_path / "jobs.sqlite", large_jobs(JOBS, LARGE)
    begun = list(scribe.messages)
    for number in range(JOBS):
        scribe.write(*of(large_job(number), started()))
    async with filled(path, begun, LARGE) as ingest:
        with at_most(ALL):
            await ingest.apply(scribe.messages[len(begun) :])
        assert ingest.position.sequence == len(scribe.messages)
    async with Readers.open(path) as opened:
        assert (
            await reads.page(opened, JobFilter(state=[JobState.ACTIVE]), offset=0, limit=1)
        ).count == JOBS


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(messages=logs(max_jobs=60), room=st.integers(1, 20_000))
async def test_whatever_room_there_is_the_rows_are_the_same(
    messages: list[LogMessage], room: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("rooms")
    halves = len(messages) // 2
    async with filled(folder / "little.sqlite", messages[:halves], room) as ingest:
        await ingest.apply(messages[halves:])
    async with filled(folder / "enough.sqlite", messages, 10**9):
        pass
    assert rows_of(folder / "little.sqlite") == rows_of(folder / "enough.sqlite")


@pytest.fixture
async def lab(server: EmbeddedServer) -> AsyncIterator[LogLab]:
    async with log_lab(server.url) as made:
        yield made


async def test_a_log_of_very_large_jobs_is_rebuilt_in_small_batches_listed_and_read(
    lab: LogLab, server: EmbeddedServer, tmp_path: Path
) -> None:
    path, told = tmp_path / "jobs.sqlite", []
    lab.scribe = large_jobs(MANY, VERY_LARGE)
    await lab.send()
    end = await lab.end()
    await rebuild(path, lab.feed, lambda done, _: told.append(done))
    batches = [after - before for before, after in pairwise(told)]
    assert sum(batches) == MANY
    assert max(batches) * VERY_LARGE < 64 * 1024 * 1024
    async with (
        daemon_at(server.url, path) as daemon,
        AdminClient.connect(server.url, timeout=20) as client,
    ):
        await until_projected(daemon, end)
        listed = [each.id async for each in client.jobs(page=500)]
        assert listed == [large_job(number).job_id for number in reversed(range(MANY))]
        found = await client.get(large_job(7).job_id)
        assert found.payload == {"number": 7, "blob": "h" * VERY_LARGE}
