"""A service with schedules, its workers, and an admin runtime that knows them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jobs_admin.api.client import AdminClient
from jobs_admin.daemon import Daemon
from tests.admin.upkeep_lab import looking_after
from tests.support.example_service import (
    Report,
    Task,
    TaskJobs,
    TaskWorker,
    example_jobs,
    task_worker,
)
from tests.support.facts import until
from tests.support.lab import Probe, probe
from trellis_jobs import Cron, Every, KeyConcurrency, Service
from trellis_jobs.jetstream.schedules.records import ScheduleRecords
from trellis_jobs.model.schedules.address import ScheduleAddress

SERVICE: Final = "office"
OFFICE: Final = example_jobs(
    SERVICE,
    Task,
    Report,
    report={
        "concurrency": 10,
        "ack_wait": 1,
        "schedules": {
            "nightly": Cron("30 2 * * *", tz="Europe/Berlin", payload=Task(text="night")),
            "pulse": Every(3600, payload=Task(text="pulse"), overlap="skip"),
        },
    },
    keyed={"ack_wait": 1, "key": KeyConcurrency(["office", "/key"])},
)
NIGHTLY: Final = ScheduleAddress(SERVICE, "report", "nightly")
PULSE: Final = ScheduleAddress(SERVICE, "report", "pulse")
ACME: Final = ScheduleAddress(SERVICE, "report", "acme")
NOWHERE: Final = ScheduleAddress(SERVICE, "report", "nowhere")


@asynccontextmanager
async def office(url: str, jobs: type[TaskJobs] = OFFICE) -> AsyncIterator[TaskWorker]:
    """A worker of all queues, whose declared schedules are there."""
    made = task_worker(Service(jobs, grace=1))
    async with made.service.connect(url), probe(url) as raw:
        declared = made.service.contract.queues["report"].schedules
        await until_listed(raw, {ScheduleAddress(SERVICE, "report", each) for each in declared})
        yield made
    made.go.set()


async def until_listed(raw: Probe, addresses: set[ScheduleAddress]) -> None:
    records = records_of(raw)

    async def there() -> bool:
        return addresses <= {record.address for record in await records.all(SERVICE)}

    await until(there, f"the schedules {addresses} are recorded")


def records_of(raw: Probe) -> ScheduleRecords:
    return ScheduleRecords(raw.connection, supports_ttl=raw.features.message_ttl)


@dataclass
class Office:
    """`worker` is of the service, `admin` is an operator, and `raw` may do anything."""

    url: str
    worker: TaskWorker
    daemon: Daemon
    admin: AdminClient
    raw: Probe

    @property
    def jobs(self) -> TaskJobs:
        return self.worker.jobs

    @property
    def records(self) -> ScheduleRecords:
        return records_of(self.raw)


@asynccontextmanager
async def staffed(url: str, folder: Path, **changes: Any) -> AsyncIterator[Office]:
    async with (
        office(url) as worker,
        looking_after(url, folder / "jobs.sqlite", **changes) as daemon,
        AdminClient.connect(url, by="ann", timeout=20) as admin,
        probe(url) as raw,
    ):
        yield Office(url, worker, daemon, admin, raw)
