"""The example service with keyed queues of every policy, and access to the state of each key."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Unpack

from tests import given
from tests.support.example_service import Report, Task, TaskJobs, TaskWorker, example_jobs
from tests.support.facts import until
from tests.support.fault_proxy import FaultProxy, Then
from tests.support.lab import Probe, probe
from trellis_jobs import (
    JobRef,
    KeyConcurrency,
    QueueDepth,
    Service,
    Workers,
)
from trellis_jobs.contract.declaration import JobOptions, JobType
from trellis_jobs.contract.topology import KEYS
from trellis_jobs.jetstream.client import api
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.keys.state import KeyAddress, KeyState, Waiting
from trellis_jobs.model.keys.template import JobKey
from trellis_jobs.model.values import replace
from trellis_jobs.wire import keys as wire

SERVICE: Final = "helpdesk"
KEY_WRITE_ANSWERED = rb'"stream":"KV_JOBS_KEYS"'
EVENT_ANSWERED = rb'"stream":"JOBS"'


def _keyed(
    max_queued: int = 0, when_full: str = "reject", **options: Unpack[JobOptions]
) -> JobOptions:
    """Leases are short, and `max_queued` jobs of a key may wait."""
    depth = QueueDepth(max_queued_per_key=max_queued, when_full=when_full)
    return {"ack_wait": 1, "key": KeyConcurrency(["tickets", "/key"]), "queue": depth, **options}


HELPDESK: Final = example_jobs(
    SERVICE,
    Task,
    Report,
    strict=_keyed(concurrency=10),
    patient=_keyed(1, concurrency=10),
    blocking=_keyed(1, key=KeyConcurrency(["tickets", "/key"], stale_policy="block")),
    coalesce=_keyed(3, "coalesce", concurrency=10),
    newest=_keyed(0, "replace-oldest"),
    replace=_keyed(1, "replace-oldest"),
    roomy=_keyed(3),
    brief=_keyed(ack_wait=0.2),
    plain={"concurrency": 10, "ack_wait": 1},
)


@asynccontextmanager
async def worker(url: str, queue: str) -> AsyncIterator[TaskWorker]:
    made = TaskWorker(Service(HELPDESK, grace=5.0))
    getattr(made.jobs, queue).handle(made.handle)
    async with made.service.connect(url, workers=Workers(queues=[queue])):
        try:
            yield made
        finally:
            made.go.set()


@asynccontextmanager
async def producer(url: str) -> AsyncIterator[TaskJobs]:
    service = Service(HELPDESK)
    async with service.connect(url, workers=False):
        yield service.jobs


@dataclass
class Key:
    """One key of one queue, read and written past everything that guards it."""

    raw: Probe
    name: str
    value: str = "acme"

    @property
    def queue(self) -> JobType[Any, Any]:
        return HELPDESK.contract.queues[self.name]

    @property
    def job_key(self) -> JobKey:
        assert self.queue.key_policy is not None
        return self.queue.key_policy.template.resolve({"key": self.value})

    @property
    def subject(self) -> str:
        return subjects.key_state(self.address)

    @property
    def address(self) -> KeyAddress:
        return KeyAddress(SERVICE, self.queue.name, self.job_key.hash)

    @property
    def empty(self) -> KeyState:
        key_policy = self.queue.key_policy
        assert key_policy is not None
        return KeyState(
            address=self.address,
            display=self.job_key.display,
            max_active=key_policy.max_active,
            max_queued=key_policy.max_queued,
        )

    def job(self, job_id: str) -> JobAddress:
        return JobAddress(SERVICE, self.queue.name, job_id)

    async def stored(self) -> bytes:
        """Returns nothing if the key was never written."""
        answer = await self.raw.connection.request(f"$JS.API.DIRECT.GET.{KEYS}.{self.subject}")
        return b"" if (answer.headers or {}).get("Status") == "404" else answer.data

    async def state(self) -> KeyState:
        data = await self.stored()
        found = wire.decode(data, expected=self.address) if data else self.empty
        assert isinstance(found, KeyState), found
        return found

    async def queued(self) -> list[str]:
        return [waiting.job_id for waiting in (await self.state()).queued]

    async def active(self) -> list[str]:
        return [slot.job_id for slot in (await self.state()).active]

    async def until_queued(self, *job_ids: str) -> None:
        async def there() -> bool:
            return await self.queued() == list(job_ids)

        await until(there, f"{job_ids} wait for {self.job_key.display}")

    async def until_free(self) -> None:
        async def free() -> bool:
            state = await self.state()
            return not state.active and not state.queued

        await until(free, f"{self.job_key.display} is free")

    async def put(self, state: KeyState | bytes) -> None:
        data = state if isinstance(state, bytes) else wire.encode(state)
        answer = await self.raw.connection.request(self.subject, data)
        assert "error" not in json.loads(answer.data)

    async def put_waiting(self, *entries: Waiting) -> None:
        await self.put(replace(self.empty, queued=entries))

    async def tell(self, *history: e.Event) -> None:
        """Writes the history of a job into the log, without running the job."""
        head: Head | None = None
        for event in history:
            answer = await self.raw.events.try_append(head, event)
            assert isinstance(answer, Head)
            head = answer


def reserved(job_id: str, *, seconds_ago: float = 0) -> Waiting:
    """A reservation for a job, which may or may not have been created."""
    return given.waiting(
        job_id, created_at=datetime.now(UTC) - timedelta(seconds=seconds_ago), request_id="theirs"
    )


def history(address: JobAddress, *events: e.Event) -> list[e.Event]:
    return [replace(event, job=address) for event in events]


async def writes_to_keys(raw: Probe) -> int:
    info = await api.request(raw.connection, f"STREAM.INFO.{KEYS}")
    return int(info["state"]["last_seq"])


async def events_in_log(raw: Probe) -> int:
    info = await api.request(raw.connection, "STREAM.INFO.JOBS")
    return int(info["state"]["messages"])


@asynccontextmanager
async def helpdesk(url: str) -> AsyncIterator[tuple[TaskJobs, Probe]]:
    async with producer(url) as jobs, probe(url) as raw:
        yield jobs, raw


def look_at(ref: JobRef[Any]) -> bytes:
    """The answer to a read of a job that was just created."""
    created = subjects.lifecycle(ref.address, e.EventKind.CREATED)
    return f"Nats-Subject: {re.escape(created)}".encode()


class Held:
    """Stops the proxy's traffic after the next message of the server."""

    def __init__(self, way: FaultProxy, *expected: bytes) -> None:
        self._way = way
        self._expected = list(expected)
        self._still = asyncio.Event()
        self._next()

    def _next(self) -> None:
        self._way.when_server_sends(self._expected.pop(0), self._hear)

    def _hear(self) -> Then:
        if self._expected:
            self._next()
        else:
            self._way.freeze()
            self._still.set()
        return Then.FORWARD

    @property
    def is_still(self) -> bool:
        return self._still.is_set()

    async def until_still(self) -> None:
        async with asyncio.timeout(20):
            await self._still.wait()
