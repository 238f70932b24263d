"""A service whose jobs say something while they run, and what became of some of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from jobs_admin.api.client import AdminClient
from tests.cli.stage import Stage, stage
from tests.support.lab import probe, until_state
from trellis_jobs import ActiveJob, Jobs, KeyConcurrency, QueueDepth, Service, Workers, job
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.states import JobState

NO_EVENT: Final = b"this is no event"


class Book(BaseModel):
    title: str
    shelf: str = "A"


class LibraryJobs(Jobs, service="library"):
    index = job(
        Book,
        int,
        ack_wait=1,
        backoff=[0.05],
        max_deliver=2,
        concurrency=4,
        key=KeyConcurrency(["shelf", "/shelf"]),
        queue=QueueDepth(max_queued_per_key=5),
    )
    lend = job(Book)


@dataclass(frozen=True)
class Library:
    """`read` completed; `torn` died, was retried by ann and died again; `lent` waits for a worker.

    Bytes that are not an event are stored under the subjects of `lent`.
    """

    stage: Stage
    read: str
    torn: str
    lent: str


def library_service() -> Service[LibraryJobs]:
    made = Service(LibraryJobs)

    @made.jobs.index.handle
    async def index(active: ActiveJob[Book]) -> int:
        await active.log(f"opening {active.payload.title}")
        await active.progress(current=1, total=2, step="pages")
        if active.payload.title == "torn":
            raise RuntimeError("page 7 is missing")
        await active.progress(current=2, total=2, step="pages")
        return 2

    return made


@contextmanager
def library(folder: Path) -> Iterator[Library]:
    with stage(folder) as on:
        read, torn, lent = asyncio.run(_live(on.url))
        yield Library(on, read, torn, lent)


async def _live(url: str) -> tuple[str, str, str]:
    service = library_service()
    async with (
        service.connect(url, workers=Workers(queues=["index"])),
        AdminClient.connect(url, by="ann") as admin,
    ):
        lent = await service.jobs.lend.create(Book(title="lent"))
        read = await service.jobs.index.create(Book(title="read"))
        await until_state(read, JobState.COMPLETED)
        torn = await service.jobs.index.create(Book(title="torn", shelf="B"))
        await until_state(torn, JobState.DEAD)
        await admin.replay(torn.id, reason="glued")
        await until_state(torn, JobState.DEAD)
    await _scribble(url, lent.address)
    return read.id, torn.id, lent.id


async def _scribble(url: str, job: JobAddress) -> None:
    async with probe(url) as raw:
        await raw.connection.request(subjects.lifecycle(job, EventKind.COMPLETED), NO_EVENT)
