"""The example service with queues for most tests, and direct access to the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from tests.support.example_service import (
    Report,
    Task,
    TaskJobs,
    TaskWorker,
    example_jobs,
    task_worker,
)
from tests.support.facts import DEADLINE, until
from trellis_jobs import JobRef, JobSnapshot, Service, Workers
from trellis_jobs.contract.features import Features
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connect_options import ConnectOptions
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.log.event_log import EventLog
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.states import JobState

LAB: Final = example_jobs(
    "lab",
    Task,
    Report,
    work={
        "concurrency": 10,
        "ack_wait": 1,
        "backoff": [0.1],
        "max_deliver": 3,
        "max_snoozes": 2,
    },
    single={"concurrency": 1, "ack_wait": 1, "backoff": [0.1], "max_deliver": 1},
    slow={"concurrency": 10, "ack_wait": 30, "backoff": [0.1]},
    long={"concurrency": 10, "ack_wait": 1800, "backoff": [0.1], "max_deliver": 2},
    hasty={"timeout": 0.3, "backoff": [0.1], "max_deliver": 2},
    plain={"ack_wait": 1, "backoff": [0.05], "dlq": False, "max_deliver": 2},
    picky={"permanent": [KeyError], "backoff": [0.05]},
    brief={"deadline": 0.2},
    mute={"progress": False, "logs": False},
)


def lab_worker(*, grace: float = 5.0) -> TaskWorker:
    """A worker that is not connected yet, with a handler for every queue."""
    return task_worker(Service(LAB, grace=grace))


@asynccontextmanager
async def worker(
    url: str | ConnectOptions, *queues: str, grace: float = 5.0
) -> AsyncIterator[TaskWorker]:
    made = lab_worker(grace=grace)
    async with made.service.connect(
        url, workers=Workers(queues=queues or None), connect_timeout=DEADLINE
    ):
        yield made
    made.go.set()


@asynccontextmanager
async def producer(url: str | ConnectOptions) -> AsyncIterator[TaskJobs]:
    service = Service(LAB)
    async with service.connect(url, workers=False, connect_timeout=DEADLINE):
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

    async def until_queued(self, count: int) -> None:
        """Waits until the work queue has `count` jobs. They are in the log a moment before."""

        async def there() -> bool:
            return await self.work_messages() == count

        await until(there, f"the work queue has {count} jobs")

    async def until_empty(self) -> None:
        async def empty() -> bool:
            return await self.work_messages() == 0

        await until(empty, "the work queue is empty")


@asynccontextmanager
async def probe(url: str | ConnectOptions) -> AsyncIterator[Probe]:
    connection = await Connection.open(url, name="probe", timeout=DEADLINE)
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


async def dead_jobs(url: str, *errors: str, version: str | None = None) -> list[str]:
    """The ids of jobs that died of these, one after the other, in a version of the service."""
    made = task_worker(Service(LAB, version=version))
    async with made.service.connect(
        url, workers=Workers(queues=["single"]), connect_timeout=DEADLINE
    ):
        refs = [await made.jobs.single.create(Task(do="always fail", text=e)) for e in errors]
        for ref in refs:
            await until_state(ref, JobState.DEAD)
    return [ref.id for ref in refs]
