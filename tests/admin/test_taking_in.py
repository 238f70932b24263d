"""Batches into the file: in as many statements as it takes, and never by halves."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from jobs_admin.projection.batch import project, read
from jobs_admin.projection.bulk_statement import BulkStatement
from jobs_admin.projection.counters import COUNTER_TABLES, CounterTable
from jobs_admin.projection.files import made
from jobs_admin.projection.ingest import Ingest
from jobs_admin.projection.schema import indexes_script, tables_script
from jobs_admin.projection.store import Projection
from jobs_admin.projection.writer import Writer
from tests.admin.made_log import Scribe, large_jobs
from tests.admin.projection_lab import position_of
from tests.given import completed, created, started
from trellis_jobs.jetstream.log.feed import LogPosition


@pytest.mark.parametrize("rows", [0, 1, 2, 511, 512, 513, 1_535])
def test_every_row_is_written_once(rows: int) -> None:
    add = BulkStatement(
        "INSERT INTO sums", 2, "ON CONFLICT (kind) DO UPDATE SET n = n + excluded.n"
    )
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE sums (kind INTEGER PRIMARY KEY, n INTEGER)")
        for times in (1, 2):
            add.execute(database, [(kind, kind + 1) for kind in range(rows)])
            expected = [(kind, times * (kind + 1)) for kind in range(rows)]
            assert database.execute("SELECT kind, n FROM sums").fetchall() == expected


async def test_who_is_stopped_while_a_batch_is_written_knows_that_it_is_in(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    messages = Scribe().write(created(), started(), completed()).messages
    async with Projection.open(path) as projection:
        ingest = Ingest(projection, LogPosition())
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            taking_in = asyncio.create_task(ingest.apply(messages))
            await asyncio.sleep(0)
            taking_in.cancel()
            await asyncio.sleep(0)
            other.execute("ROLLBACK")
        with pytest.raises(asyncio.CancelledError):
            await taking_in
        assert ingest.position.sequence == position_of(path) == len(messages)


async def test_a_batch_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    messages = Scribe().write(created(), started()).messages
    async with Projection.open(path) as projection:
        with closing(sqlite3.connect(path)) as other:
            # The last thing that a batch writes is its place.
            other.execute("DROP TABLE projection_metadata")
        ingest = Ingest(projection, LogPosition())
        with pytest.raises(sqlite3.OperationalError):
            await ingest.apply(messages)
        assert ingest.position == LogPosition()
        with closing(sqlite3.connect(path)) as other:
            assert other.execute("SELECT count(*) FROM jobs_projection").fetchone() == (0,)


@pytest.mark.parametrize("jobs", [1, 8])
def test_a_full_disk_is_said_to_be_full(tmp_path: Path, jobs: int) -> None:
    """Of one row SQLite rolls back all by itself, of several only the statement."""
    path = tmp_path / "jobs.sqlite"
    file = made(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        writer = Writer(database, path, file)
        writer.prepare(bulk=False)
        (pages,) = database.execute("PRAGMA page_count").fetchone()
        database.execute(f"PRAGMA max_page_count = {pages + 10}")
        large = project(read(large_jobs(jobs, 500_000).messages), {})
        with pytest.raises(sqlite3.OperationalError, match="disk is full"):
            writer.apply(large)
        writer.apply(project(read(large_jobs(jobs, 10).messages), {}))
        assert database.execute("SELECT count(*) FROM jobs_projection").fetchone() == (jobs,)


@pytest.mark.parametrize("counter", COUNTER_TABLES, ids=lambda counter: counter.table)
def test_counts_that_came_down_to_nothing_are_found_by_their_key(counter: CounterTable) -> None:
    """There may be a hundred thousand errors, and as many keys."""
    statements: list[str] = []
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(tables_script() + indexes_script())
        database.set_trace_callback(statements.append)
        counter.clear.execute(database, [tuple("?" * len(counter.kind))] * 3)
        database.set_trace_callback(None)
        for statement in statements:
            [plan, *_] = database.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
            assert plan[-1].startswith(f"SEARCH {counter.table} USING PRIMARY KEY")
    assert len(statements) == 2
