"""Everything here is right, and both type checkers say so without a word."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, assert_type

from pydantic import BaseModel
from typing_extensions import TypedDict

from trellis_jobs import (
    Accepted,
    ActiveJob,
    CallNext,
    Coalesced,
    JobRef,
    Jobs,
    JobSnapshot,
    JobState,
    KeyConcurrency,
    KeyLease,
    Queue,
    QueueDepth,
    Rejected,
    Replaced,
    Resource,
    Service,
    SyncClient,
    SyncJobRef,
    SyncQueue,
    current_job,
    job,
)
from trellis_jobs.contract.declaration import JobType


class SyncTickets(BaseModel):
    origin: str


class SyncReport(BaseModel):
    tickets: int


@dataclass(frozen=True)
class Point:
    x: int


class Document(TypedDict):
    id: str
    pages: int


class HelpdeskJobs(Jobs, service="helpdesk"):
    sync_tickets = job(SyncTickets, SyncReport, concurrency=4, backoff=[5, timedelta(minutes=1)])
    plot = job(Point, list[Point], timeout=timedelta(seconds=5), permanent=[ValueError])
    index = job(
        Document,
        Document,
        name="index-document",
        deadline=3600,
        delivery_limit=None,
        key=KeyConcurrency(["index", "/id"], max_active=2, heartbeat_ttl=timedelta(minutes=3)),
        queue=QueueDepth(max_queued_per_key=10, when_full="coalesce"),
    )
    count = job(int, str, max_deliver=3, ack_wait=1.5, progress=False, logs=False, dlq=False)
    forget = job(str)
    nothing = job(str, None, shared=True)


service = Service(HelpdeskJobs)
assert_type(service, Service[HelpdeskJobs])
assert_type(service.jobs, HelpdeskJobs)
assert_type(service.jobs.sync_tickets, Queue[SyncTickets, SyncReport])
assert_type(service.jobs.plot, Queue[Point, list[Point]])
assert_type(service.jobs.index, Queue[Document, Document])
assert_type(service.jobs.count, Queue[int, str])
assert_type(service.jobs.forget, Queue[str, None])
assert_type(service.jobs.nothing, Queue[str, None])
assert_type(HelpdeskJobs.sync_tickets, JobType[SyncTickets, SyncReport])


class Database:
    async def count(self, origin: str) -> int:
        return len(origin)


class FakeDatabase(Database):
    pass


@service.lifespan
@asynccontextmanager
async def database() -> AsyncGenerator[Database, None]:
    yield Database()


@service.lifespan
@asynccontextmanager
async def given_the_service(helpdesk: Service[HelpdeskJobs]) -> AsyncGenerator[list[str], None]:
    yield [helpdesk.name]


class Client(AbstractAsyncContextManager["Client"]):
    async def __aexit__(self, *_: object) -> None:
        pass


client = service.lifespan(Client)
assert_type(database, Resource[Database])
assert_type(database.get(), Database)
assert_type(given_the_service.get(), list[str])
assert_type(client.get(), Client)
with database.override(FakeDatabase()) as fake:
    assert_type(fake, Database)


@service.around
async def timed(active: ActiveJob[Any], call_next: CallNext) -> Any:
    assert_type(current_job(), ActiveJob[Any])
    return await call_next(active)


@service.jobs.sync_tickets.handle
async def sync(active: ActiveJob[SyncTickets]) -> SyncReport:
    assert_type(active.payload, SyncTickets)
    assert_type(active.tries, int)
    assert_type(active.deadline, datetime | None)
    assert_type(active.key, str | None)
    assert_type(active.key_lease, KeyLease | None)
    await active.progress(current=1, total=9, step="fetch", message="page 1")
    await active.log("fetched", level="warn")
    await active.heartbeat()
    return SyncReport(tickets=await database.get().count(active.payload.origin))


@service.jobs.plot.handle
def plot(active: ActiveJob[Point]) -> list[Point]:
    active.progress(current=active.payload.x)
    return [active.payload]


@service.jobs.index.handle
async def index(active: ActiveJob[Document]) -> Document:
    return {"id": active.payload["id"], "pages": 1}


@service.jobs.count.handle
def count(active: ActiveJob[int]) -> str:
    return str(active.payload + 1)


@service.jobs.forget.handle
async def forget(active: ActiveJob[str]) -> None:
    assert_type(active.payload, str)


@service.jobs.nothing.handle
def nothing(active: ActiveJob[str]) -> None:
    active.log(active.payload.upper())


async def handlers_stay_what_they_were(active: ActiveJob[SyncTickets]) -> None:
    assert_type(await sync(active), SyncReport)


async def produce() -> None:
    async with service.connect("nats://127.0.0.1:4222", workers=False) as connected:
        assert_type(connected, Service[HelpdeskJobs])
        jobs = connected.jobs
        ref = await jobs.sync_tickets.create(SyncTickets(origin="acme"), deadline=60)
        assert_type(ref, JobRef[SyncReport])
        assert_type(await ref.wait(timeout=30), SyncReport)
        assert_type((await ref.wait()).tickets, int)
        assert_type(await ref.get(), JobSnapshot[SyncReport])
        assert_type((await ref.get()).result, SyncReport | None)
        assert_type(await ref.get(reveal=True), JobSnapshot[SyncReport])
        assert_type((await ref.get()).state, JobState)
        assert_type(ref.id, str)

        many = await jobs.plot.create_many(Point(x) for x in range(3))
        assert_type(many, list[JobRef[list[Point]]])
        assert_type([await each.wait() for each in many], list[list[Point]])

        assert_type(await (await jobs.count.create(1)).wait(), str)
        assert_type(jobs.count.ref("01JQ"), JobRef[str])
        await (await jobs.forget.create("x", deadline=timedelta(hours=1))).wait()
        async for job_now in ref.watch():
            assert_type(job_now, JobSnapshot[SyncReport])


def sync_code() -> None:
    with service.connect_sync("nats://127.0.0.1:4222") as sync_client:
        assert_type(sync_client, SyncClient)
        tickets = sync_client.queue(service.jobs.sync_tickets)
        assert_type(tickets, SyncQueue[SyncTickets, SyncReport])
        ref = tickets.create(SyncTickets(origin="acme"), job_id="acme", deadline=60)
        assert_type(ref, SyncJobRef[SyncReport])
        assert_type(ref.wait(timeout=30).tickets, int)
        assert_type(ref.id, str)
        points = sync_client.queue(service.jobs.plot)
        assert_type(points.create_many([Point(1)]), list[SyncJobRef[list[Point]]])
        assert_type(points.ref("01JQ").wait(), list[Point])
        match sync_client.queue(service.jobs.index).submit({"id": "d-1", "pages": 2}):
            case Accepted(accepted):
                assert_type(accepted.wait()["pages"], int)
            case Replaced(ref=newer):
                assert_type(newer, SyncJobRef[Document])
            case Coalesced(existing=existing):
                assert_type(existing, SyncJobRef[Document])
            case Rejected(reason=reason):
                assert_type(reason, str)


async def submit(jobs: HelpdeskJobs) -> None:
    match await jobs.index.submit({"id": "d-1", "pages": 2}, job_id="d-1"):
        case Accepted(accepted):
            assert_type((await accepted.wait())["pages"], int)
        case Replaced(ref=newer, replaced_job_id=replaced):
            assert_type(newer, JobRef[Document])
            assert_type(replaced, str)
        case Coalesced(existing=existing):
            assert_type((await existing.wait())["pages"], int)
        case Rejected(reason=reason, limit=limit):
            assert_type(reason, str)
            assert_type(limit, int)
