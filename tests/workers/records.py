"""Workers with short intervals, and what others see of their records."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from tests.support.example_service import TaskWorker, task_worker
from tests.support.facts import until
from tests.support.lab import LAB, Probe
from trellis_jobs import Service, Workers
from trellis_jobs.jetstream.client.connect_options import ConnectOptions
from trellis_jobs.jetstream.control.worker_records import StoredWorker, WorkerRecords
from trellis_jobs.model.worker_record import (
    Refusal,
    WorkerRecord,
    declare_dead,
    direct,
)
from trellis_jobs.model.worker_states import WorkerState


@asynccontextmanager
async def registered_worker(
    url: str | ConnectOptions, *queues: str, dead_after: float = 1.0, **options: Any
) -> AsyncIterator[TaskWorker]:
    """A worker whose beats follow each other in a fifth of `dead_after` seconds."""
    made = task_worker(Service(LAB, grace=5, dead_after=dead_after, **options))
    async with made.service.connect(url, workers=Workers(queues=queues)):
        yield made
    made.go.set()


def records_of(raw: Probe) -> WorkerRecords:
    return WorkerRecords(raw.connection, supports_ttl=raw.features.message_ttl)


async def the_worker(raw: Probe) -> StoredWorker:
    (found,) = await records_of(raw).all("lab")
    return found


async def until_record(
    raw: Probe, holds: Callable[[WorkerRecord], bool], what: str
) -> StoredWorker:
    """Waits until a record has a property."""

    async def find() -> StoredWorker | None:
        found = await records_of(raw).all("lab")
        return next((stored for stored in found if holds(stored.record)), None)

    return await until(find, what)


async def write_directive(
    raw: Probe, state: WorkerState, *, by: str = "ada", reason: str | None = None
) -> StoredWorker | Refusal | None:
    at = datetime.now(UTC)
    return await records_of(raw).change(
        await the_worker(raw), lambda record: direct(record, state, at=at, by=by, reason=reason)
    )


async def write_verdict(raw: Probe) -> None:
    at = datetime.now(UTC)
    changed = await records_of(raw).change(
        await the_worker(raw), lambda record: declare_dead(record, by="an admin", at=at, lost={})
    )
    assert isinstance(changed, StoredWorker)
