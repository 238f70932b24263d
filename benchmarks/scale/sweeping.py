"""Retention as the admin runtime does it, in a separate process, with its clock put forward."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from benchmarks.measure import now
from benchmarks.stage import connected, until_over
from jobs_admin.cli.run import collect_rarely
from jobs_admin.maintenance.retention.archive import NoArchive
from jobs_admin.maintenance.retention.retention import Retention, RetentionDependencies
from jobs_admin.projection.projector import Projector
from jobs_admin.reads.readers import Readers
from jobs_admin.retention_policy import standard
from trellis_jobs.jetstream.log.feed import LogFeed

KEPT: Final = timedelta(days=7)  # how long completed jobs are


@dataclass(frozen=True, slots=True)
class Sweep:
    """When it began and ended, on the clock that all processes share, and how many it removed."""

    began: float
    ended: float
    jobs: int


async def sweep(url: str, ended_before: float, last: int) -> Sweep:
    """Jobs that ended before then are removed; after that the log is only projected.

    Until the work queue has had its message number `last`, and is empty.
    """
    collect_rarely()

    async def long_after() -> datetime:
        return datetime.fromtimestamp(ended_before, UTC) + KEPT

    async with _doors(url) as doors:
        retention, began = Retention(standard(), NoArchive(), doors, long_after), now()
        swept = await retention.sweep()
        ended = now()
        await until_over(url, last)
    return Sweep(began, ended, swept.removed.total())


@asynccontextmanager
async def _doors(url: str) -> AsyncIterator[RetentionDependencies]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.sqlite"
        async with (
            connected(url) as connection,
            Projector.open(LogFeed(connection), path) as projector,
        ):
            projecting = asyncio.create_task(projector.run())
            await projector.until_open()
            async with Readers.open(path, projector) as readers:
                yield RetentionDependencies(connection, readers, projector)
            projecting.cancel()
            await asyncio.wait([projecting])
