"""Shared queues with TypeScript and Rust runtimes: keys, deliveries, notes and answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

import orjson
import pytest
from pydantic import BaseModel

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.health import HealthStatus
from tests import given
from tests.support.example_service import ExampleJobs, example_jobs
from tests.support.facts import until
from tests.support.lab import Probe, probe
from trellis_jobs import ActiveJob, Bindings, KeyConcurrency, Service
from trellis_jobs.contract.permissions import grants
from trellis_jobs.contract.topology import Topology
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import utc_now
from trellis_jobs.errors import InfrastructureMismatch
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.keys.state import KeyAddress, KeyState, Slot
from trellis_jobs.wire import keys as wire

BUCKET: Final = "JOBS_KEYS_fleet"


class Ticket(BaseModel):
    origin: str = "mail"


FLEET: Final = example_jobs(
    "fleet",
    Ticket,
    str,
    sync={
        "concurrency": 3,
        "ack_wait": 5,
        "shared": True,
        "key": KeyConcurrency(["tickets", "/origin"]),
    },
    note={"concurrency": 3, "shared": True},
    own={"concurrency": 3},
)


BINDINGS: Final = Bindings.from_json(
    {
        "namespace": "fleet",
        "keysBucket": BUCKET,
        "queues": {
            name: {
                "publishPrefix": f"trellis.jobs.fleet.{name}",
                "workSubject": f"trellis.work.fleet.{name}",
                "consumerName": f"fleet-{name}",
            }
            for name in FLEET.contract.queues
        },
    }
)


def fleet(bindings: Bindings | None = BINDINGS) -> Service[ExampleJobs[Ticket, str]]:
    service = Service(FLEET, bindings=bindings)

    @service.jobs.sync.handle
    @service.jobs.note.handle
    @service.jobs.own.handle
    async def handle(active: ActiveJob[Ticket]) -> str:
        await active.progress(current=1, total=2)
        await active.log("half of it")
        return active.payload.origin

    return service


def foreign_holder(origin: str) -> KeyState:
    """A key whose only slot a worker of another runtime has."""
    key_policy = FLEET.contract.queues["sync"].key_policy
    assert key_policy is not None
    key = key_policy.template.resolve({"origin": origin})
    now = utc_now()
    slot = Slot(
        job_id="01JFOREIGN",
        token=given.FIRST.id,
        instance="typescript",
        started_at=now,
        heartbeat_at=now,
        expires_at=now + timedelta(minutes=5),
        tries=1,
        context=given.CONTEXT,
    )
    address = KeyAddress("fleet", "sync", key.hash, BUCKET)
    return KeyState(
        address=address, display=key.display, max_active=1, max_queued=0, active=(slot,)
    )


async def test_a_limit_holds_among_both_when_the_bucket_is_bound(server: EmbeddedServer) -> None:
    """With keys in two buckets the jobs of one key overlapped in 18 of 40 runs."""
    service = fleet()
    async with service.connect(server.url), probe(server.url) as raw:
        held = foreign_holder("mail")
        subject = subjects.key_state(held.address)
        await raw.connection.request(subject, wire.encode(held, wire.WaitingEntryCache()))
        outcome = await service.jobs.sync.submit(Ticket(origin="mail"))
        assert type(outcome).__name__ == "Rejected"
        ref = await service.jobs.sync.create(Ticket(origin="web"))
        assert await ref.wait(timeout=10) == "web"
        free = wire.encode(
            KeyState(address=held.address, display=held.display, max_active=1, max_queued=0),
            wire.WaitingEntryCache(),
        )
        await raw.connection.request(subject, free)
        ref = await service.jobs.sync.create(Ticket(origin="mail"))
        assert await ref.wait(timeout=10) == "mail"
        stream = await api.request(raw.connection, "STREAM.INFO.KV_JOBS_KEYS")
        assert stream["state"]["messages"] == 0
        bound = await api.request(raw.connection, f"STREAM.INFO.KV_{BUCKET}")
        assert (bound["state"]["messages"], bound["config"]["allow_direct"]) == (2, True)


async def test_a_bucket_that_the_other_made_gets_direct_reads_and_is_left_as_it_is(
    server: EmbeddedServer,
) -> None:
    async with probe(server.url) as raw:
        theirs = {
            "name": f"KV_{BUCKET}",
            "subjects": [f"$KV.{BUCKET}.>"],
            "max_msgs_per_subject": 1,
            "discard": "new",
            "allow_rollup_hdrs": True,
        }
        await api.request(raw.connection, f"STREAM.CREATE.KV_{BUCKET}", theirs)
        async with fleet().connect(server.url, workers=False):
            found = await api.request(raw.connection, f"STREAM.INFO.KV_{BUCKET}")
        assert found["config"]["allow_direct"]
        assert found["config"]["allow_rollup_hdrs"]


def test_each_service_may_use_the_bucket_of_its_bindings_and_no_other() -> None:
    contract = BINDINGS.bind(FLEET.contract)
    own = grants.of_service(contract)
    subject = f"$KV.{BUCKET}.fleet.>"
    assert {subject, f"$JS.API.DIRECT.GET.KV_{BUCKET}.{subject}"} <= set(own.publish)
    assert subject in own.subscribe
    assert not any("KV.JOBS_KEYS." in each for each in (*own.publish, *own.subscribe))
    provisioner = grants.of_provisioner("provisioner", [contract])
    assert f"$JS.API.STREAM.CREATE.KV_{BUCKET}" in provisioner.publish


async def test_a_shared_queue_with_a_key_and_no_bucket_is_warned_of(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with fleet(None).connect(server.url, workers=False):
        pass
    assert "queue sync is shared and has a key" in caplog.text
    assert "JOBS_KEYS_fleet" in caplog.text
    caplog.clear()
    async with fleet().connect(server.url, workers=False):
        pass
    assert "is shared and has a key" not in caplog.text


async def test_a_runtime_that_fetches_ahead_gets_no_more_than_may_run(
    server: EmbeddedServer,
) -> None:
    """Beside one 8 of 60 jobs ran twice: they lay in its buffer until their leases ended."""
    async with fleet().connect(server.url):
        pass
    service = fleet()
    async with service.connect(server.url, workers=False), probe(server.url) as raw:
        for queue in (service.jobs.note, service.jobs.own):
            await queue.create_many([Ticket()] * 10)

        async def are_there() -> bool:
            return await raw.work_messages() == 20

        await until(are_there, "all are in the work queue")
        assert await fetched_ahead(raw, "fleet-note") == 3
        assert await fetched_ahead(raw, "fleet-own") == 10


async def fetched_ahead(raw: Probe, consumer: str) -> int:
    """How many messages a pull for sixty brings; the last one says that there are no more."""
    got: list[Any] = []
    inbox = raw.connection.new_inbox()
    await raw.connection.subscribe(inbox, got.append)
    pull = orjson.dumps({"batch": 60, "expires": 500_000_000})
    await raw.connection.publish(
        f"$JS.API.CONSUMER.MSG.NEXT.JOBS_WORK.{consumer}", pull, reply=inbox
    )
    await until(lambda: got and "Status" in (got[-1].headers or {}), "the pull has ended")
    return len(got) - 1


async def stored(raw: Probe, subject: str) -> list[dict[str, Any]]:
    info = await api.request(raw.connection, "STREAM.INFO.JOBS")
    found = []
    for sequence in range(1, int(info["state"]["last_seq"]) + 1):
        message = await raw.connection.request(
            "$JS.API.DIRECT.GET.JOBS", orjson.dumps({"seq": sequence})
        )
        if (message.headers or {}).get("Nats-Subject", "").startswith(subject):
            found.append(orjson.loads(message.data))
    return found


@pytest.mark.parametrize("queue", ["note", "own"])
async def test_progress_is_a_separate_event(server: EmbeddedServer, queue: str) -> None:
    service, told = Service(FLEET), asyncio.Event()

    async def handle(active: ActiveJob[Ticket]) -> str:
        await active.progress(current=1, total=2)
        await active.log("half of it")
        await told.wait()
        await active.progress(current=2, total=2)
        return "done"

    getattr(service.jobs, queue).handle(handle)
    async with service.connect(server.url), probe(server.url) as raw:
        ref = await getattr(service.jobs, queue).create(Ticket())

        async def is_noted() -> bool:
            return EventKind.LOGGED in await raw.kinds(ref)

        await until(is_noted, "progress and a line are in the log")
        told.set()
        await ref.wait(timeout=10)
        events = await stored(raw, f"trellis.jobs.fleet.{queue}.{ref.id}")
    by_kind = {event["eventType"]: event for event in events}
    assert "progress" in by_kind["progress"]
    assert "progress" not in by_kind["logged"]
    assert ("progress" in by_kind["completed"]) == (queue == "own")
    if queue == "note":
        assert by_kind["progress"]["progress"] == {"current": 2, "total": 2}


@pytest.mark.parametrize("by_operator", [False, True])
async def test_the_work_queue_of_another_runtime_is_refused_with_what_to_do(
    server: EmbeddedServer, by_operator: bool
) -> None:
    async with probe(server.url) as raw:
        topology = Topology(raw.features, by_operator=by_operator)
        await api.request(raw.connection, "STREAM.CREATE.JOBS", topology.log())
        sources = [
            {
                "name": "JOBS",
                "subject_transforms": [
                    {"src": f"trellis.jobs.*.*.*.{kind}", "dest": "trellis.work.$1.$2"}
                ],
            }
            for kind in ("created", "retried")
        ]
        theirs = topology.work() | {"sources": sources}
        await api.request(raw.connection, "STREAM.CREATE.JOBS_WORK", theirs)
        with pytest.raises(InfrastructureMismatch) as refused:
            await provision(raw.connection, topology)
    message = str(refused.value)
    assert "sources should be" in message
    assert "was created by another Trellis runtime" in message
    assert "delete JOBS_WORK (every job stays in JOBS)" in message


CONTEXT: Final = {"requestId": "r", "traceId": "t", "traceparent": "p"}
TIME: Final = "2026-11-18T01:00:00Z"
ORIGINAL_JOB: Final = {
    "id": "01J",
    "service": "fleet",
    "type": "sync",
    "state": "completed",
    "context": CONTEXT,
    "payload": {"origin": "mail"},
    "result": "done",
    "createdAt": TIME,
    "updatedAt": TIME,
    "startedAt": TIME,
    "completedAt": TIME,
    "tries": 1,
    "maxTries": 5,
    "lastError": "it was late",
    "progress": {"current": 1},
    "logs": [{"timestamp": TIME, "level": "info", "message": "hello"}],
}
# What the original admin runtime answers: none of the fields that this one adds.
ORIGINAL: Final[dict[str, Any]] = {
    "Jobs.Health": {
        "service": "trellis.jobs",
        "status": "healthy",
        "timestamp": TIME,
        "checks": [],
    },
    "Jobs.Get": {"job": ORIGINAL_JOB},
    "Jobs.Cancel": {"job": ORIGINAL_JOB},
    "Jobs.List": {"entries": [ORIGINAL_JOB], "count": 1, "offset": 0, "limit": 50},
    "Jobs.GetKey": {
        "service": "fleet",
        "type": "sync",
        "key": "tickets:mail",
        "keyHash": "ab",
        "active": [],
        "queued": [],
        "queuedDepth": 0,
        "staleTakeoverCount": 0,
    },
    "Jobs.ListServices": {
        "entries": [
            {
                "name": "fleet",
                "healthy": True,
                "workers": [
                    {"service": "fleet", "jobType": "sync", "instanceId": "i", "timestamp": TIME}
                ],
            }
        ],
        "count": 1,
        "offset": 0,
        "limit": 50,
    },
}


@asynccontextmanager
async def original_admin(raw: Probe) -> AsyncIterator[None]:
    answering = set[asyncio.Task[None]]()

    def answer(message: Any) -> None:
        told = orjson.dumps(ORIGINAL[subjects.rpc_method(message.subject)])
        answering.add(asyncio.create_task(raw.connection.publish(message.reply, told)))

    await raw.connection.subscribe("rpc.v1.Jobs.*", answer)
    await raw.connection.flush()
    yield
    await asyncio.gather(*answering)


async def test_the_client_reads_answers_of_the_original_admin_runtime(
    server: EmbeddedServer,
) -> None:
    async with (
        probe(server.url) as raw,
        original_admin(raw),
        AdminClient.connect(server.url) as admin,
    ):
        assert (await admin.health()).status is HealthStatus.OK
        found = await admin.get("01J")
        assert (found.began_at, found.logs[0].message) == (found.created_at, "hello")
        assert (await admin.cancel("01J")).job.id == "01J"
        assert [each.id async for each in admin.jobs()] == ["01J"]
        assert (await admin.get_key("fleet", "sync", "tickets:mail")).max_active == 0
        [service] = [each async for each in admin.services()]
        assert (service.types, service.workers[0].instance_id) == ((), "i")
