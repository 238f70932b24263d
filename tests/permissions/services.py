"""Services that share a server and must not reach each other: a house and its garden.

And an orchard, whose keys are in a separate bucket, as beside runtimes of other languages.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel

from tests.support.example_service import ExampleJobs, example_jobs
from tests.support.facts import until
from trellis_jobs import (
    ActiveJob,
    Bindings,
    Cron,
    JobRef,
    KeyConcurrency,
    QueueDepth,
    Service,
    Workers,
)
from trellis_jobs.contract.declaration import JobOptions
from trellis_jobs.jetstream.client.connect_options import ConnectOptions


class Chore(BaseModel):
    """`room` is the key of those queues that have one."""

    do: str = "answer"
    room: str = "hall"


_WORK: Final[JobOptions] = {
    "concurrency": 10,
    "ack_wait": 1,
    "backoff": [0.05],
    "max_deliver": 3,
}
# Its next tick is on a leap day, so its jobs are triggered.
LEAP_DAY: Final[JobOptions] = {
    "schedules": {"leap-day": Cron("0 0 29 2 *", tz="Europe/Berlin", payload=Chore())}
}
_QUEUES_OF_THE_HOUSE: Final[dict[str, JobOptions]] = {
    "work": {**_WORK, **LEAP_DAY},
    "keyed": {
        "concurrency": 10,
        "ack_wait": 1,
        "key": KeyConcurrency(["room", "/room"]),
        "queue": QueueDepth(max_queued_per_key=1),
    },
    "limited": {"ack_wait": 1, "delivery_limit": 1},
    "unattended": {},
}
HOUSE: Final = example_jobs("house", Chore, str, **_QUEUES_OF_THE_HOUSE)


GARDEN: Final = example_jobs(
    "garden",
    Chore,
    str,
    work={"ack_wait": 1},
    keyed={"ack_wait": 1, "key": KeyConcurrency(["room", "/room"])},
)


ORCHARD: Final = example_jobs(
    "orchard",
    Chore,
    str,
    keyed={
        "concurrency": 10,
        "ack_wait": 1,
        "shared": True,
        "key": KeyConcurrency(["room", "/room"], stale_policy="block"),
        "queue": QueueDepth(max_queued_per_key=1),
    },
)


ORCHARD_BUCKET: Final = "JOBS_KEYS_orchard"
IN_THE_ORCHARD: Final = Bindings.from_json(
    {
        "namespace": "orchard",
        "keysBucket": ORCHARD_BUCKET,
        "queues": {
            "keyed": {
                "publishPrefix": "trellis.jobs.orchard.keyed",
                "workSubject": "trellis.work.orchard.keyed",
                "consumerName": "orchard-keyed",
            }
        },
    }
)


# Fewer tries than the waiting jobs were promised.
_FEWER_TRIES: Final[JobOptions] = {**_WORK, **LEAP_DAY, "max_deliver": 2}
CHANGED_HOUSE: Final = example_jobs(
    "house", Chore, str, **(_QUEUES_OF_THE_HOUSE | {"work": _FEWER_TRIES})
)


house = Service(HOUSE)
changed_house = Service(CHANGED_HOUSE)
garden = Service(GARDEN)
orchard = Service(ORCHARD, bindings=IN_THE_ORCHARD)


@house.jobs.work.handle
async def never_ends(_: ActiveJob[Chore]) -> str:
    """What a worker in a separate process does, until it is killed."""
    await asyncio.Event().wait()
    return ""


@dataclass
class Staff:
    """Works in the house; `go` lets handlers end that were told to wait."""

    jobs: ExampleJobs[Chore, str]
    running: dict[str, ActiveJob[Chore]] = field(default_factory=dict)
    told_to_stop: list[str] = field(default_factory=list)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, active: ActiveJob[Chore]) -> str:
        self.running[active.id] = active
        try:
            await self._do(active)
        except asyncio.CancelledError:
            self.told_to_stop.append(active.id)
            raise
        finally:
            del self.running[active.id]
        return f"try {active.tries}"

    async def until_running(self, ref: JobRef[Any]) -> None:
        await until(lambda: ref.id in self.running, f"{ref} runs")

    async def _do(self, active: ActiveJob[Chore]) -> None:
        match active.payload.do:
            case "wait":
                await self.go.wait()
            case "tell":
                await active.progress(current=1, total=2, step="half")
                await active.log("told")
                await active.heartbeat()
                await self.go.wait()
            case "fail once" if active.tries == 1:
                raise RuntimeError("not yet")


@asynccontextmanager
async def staff(
    access: ConnectOptions, *queues: str, dead_after: float | None = None
) -> AsyncIterator[Staff]:
    service = Service(HOUSE, grace=1, dead_after=dead_after)
    made = Staff(service.jobs)
    for queue in (service.jobs.work, service.jobs.keyed, service.jobs.limited):
        queue.handle(made.handle)
    async with service.connect(access, workers=Workers(queues=queues)):
        yield made


@asynccontextmanager
async def household(access: ConnectOptions) -> AsyncIterator[ExampleJobs[Chore, str]]:
    """Creates jobs and works on none."""
    service = Service(HOUSE)
    async with service.connect(access, workers=False):
        yield service.jobs
