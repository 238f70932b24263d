"""A service for tests, with a handler that tests control, and raw access to the server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from tests.support.facts import until
from trellis_jobs import ActiveJob, Fail, JobRef, Jobs, JobSnapshot, Retry, Service, Workers, job
from trellis_jobs.contract.features import Features
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connect_options import ConnectOptions
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.log.event_log import EventLog
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.states import JobState


class Task(BaseModel):
    """What the lab's handler shall do: `wait` for the test's word, fail, answer."""

    do: str = "answer"
    text: str = ""


class Report(BaseModel):
    text: str
    tries: int


class LabJobs(Jobs, service="lab"):
    work = job(Task, Report, concurrency=10, ack_wait=1, backoff=[0.1], max_deliver=3)
    single = job(Task, Report, concurrency=1, ack_wait=1, backoff=[0.1], max_deliver=1)
    slow = job(Task, Report, concurrency=10, ack_wait=30, backoff=[0.1])
    hasty = job(Task, Report, timeout=0.3, backoff=[0.1], max_deliver=2)
    plain = job(Task, Report, ack_wait=1, backoff=[0.05], dlq=False, max_deliver=2)
    picky = job(Task, Report, permanent=[KeyError], backoff=[0.05])
    brief = job(Task, Report, deadline=0.2)
    mute = job(Task, Report, progress=False, logs=False)


@dataclass
class Bench:
    """One worker of the lab: what ran on it, and the word that lets waiting handlers go on."""

    service: Service[LabJobs]
    runs: list[tuple[str, int]] = field(default_factory=list)
    active: dict[str, ActiveJob[Task]] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def jobs(self) -> LabJobs:
        return self.service.jobs

    async def until_running(self, ref: JobRef[Any]) -> ActiveJob[Task]:
        return await until(lambda: self.active.get(ref.id), f"{ref} runs")

    async def handle(self, active: ActiveJob[Task]) -> Report:
        self.runs.append((active.id, active.tries))
        self.active[active.id] = active
        try:
            await self._do(active)
        except asyncio.CancelledError:
            self.cancelled.append(active.id)
            raise
        finally:
            del self.active[active.id]
        return Report(text=active.payload.text, tries=active.tries)

    async def _do(self, active: ActiveJob[Task]) -> None:
        match active.payload.do:
            case "wait":
                await self.go.wait()
            case "block":
                time.sleep(3)  # noqa: ASYNC251 - a mistake users make; three times ack_wait
            case "hang" if active.tries == 1:
                await asyncio.Event().wait()
            case _:
                _fail(active)


def _fail(active: ActiveJob[Task]) -> None:
    match active.payload.do:
        case "fail once" if active.tries == 1:
            raise RuntimeError(active.payload.text or "the first try fails")
        case "always fail":
            raise RuntimeError(active.payload.text or "it always fails")
        case "give up":
            raise Fail("this cannot work")
        case "key error":
            raise KeyError("missing")
        case "later" if active.tries == 1:
            raise Retry("not yet", after=0.3)


def bench(*, grace: float = 5.0) -> Bench:
    made = Bench(Service(LabJobs, grace=grace))
    jobs = made.jobs
    for queue in (
        jobs.work,
        jobs.single,
        jobs.slow,
        jobs.hasty,
        jobs.plain,
        jobs.picky,
        jobs.brief,
        jobs.mute,
    ):
        queue.handle(made.handle)
    return made


@asynccontextmanager
async def worker(
    url: str | ConnectOptions, *queues: str, grace: float = 5.0
) -> AsyncIterator[Bench]:
    made = bench(grace=grace)
    async with made.service.connect(url, workers=Workers(queues=queues or None)):
        yield made
    made.go.set()


@asynccontextmanager
async def producer(url: str | ConnectOptions) -> AsyncIterator[LabJobs]:
    service = Service(LabJobs)
    async with service.connect(url, workers=False):
        yield service.jobs


@dataclass
class Probe:
    """Raw access: the log, the API, the connection."""

    connection: Connection
    events: EventLog
    features: Features

    async def kinds(self, ref: JobRef[Any]) -> list[EventKind]:
        return [entry.event.kind for entry in await self.events.history(ref.address)]

    async def consumer(self, queue: str) -> dict[str, Any]:
        return await api.request(self.connection, f"CONSUMER.INFO.JOBS_WORK.lab-{queue}")

    async def work_messages(self) -> int:
        info = await api.request(self.connection, "STREAM.INFO.JOBS_WORK")
        return int(info["state"]["messages"])

    async def until_empty(self) -> None:
        async def empty() -> bool:
            return await self.work_messages() == 0

        await until(empty, "the work queue is empty")


@asynccontextmanager
async def probe(url: str | ConnectOptions) -> AsyncIterator[Probe]:
    connection = await Connection.open(url, name="probe")
    try:
        features = await detect_features(connection)
        yield Probe(connection, EventLog(connection, features), features)
    finally:
        await connection.close()


async def until_state(ref: JobRef[Any], state: JobState) -> JobSnapshot[Any]:
    async def there() -> JobSnapshot[Any] | None:
        found = await ref.get()
        return found if found.state is state else None

    return await until(there, f"{ref} is {state}")


async def dead_jobs(url: str, *errors: str) -> list[str]:
    """The ids of jobs that died of these, one after the other."""
    async with worker(url, "single") as made:
        refs = [await made.jobs.single.create(Task(do="always fail", text=e)) for e in errors]
        for ref in refs:
            await until_state(ref, JobState.DEAD)
    return [ref.id for ref in refs]
