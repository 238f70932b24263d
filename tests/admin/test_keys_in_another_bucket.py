"""Keys of queues that are shared with other runtimes, which keep them in another bucket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from pydantic import BaseModel

from jobs_admin.api.client import AdminClient
from jobs_admin.api.errors import NotFound
from tests import given
from tests.admin.admin_lab import until_projected
from tests.admin.upkeep_lab import ask, looking_after, until_swept
from tests.cli.shell import shell
from tests.support.example_service import ExampleJobs, example_jobs
from tests.support.facts import until
from tests.support.lab import Probe, probe
from trellis_jobs import ActiveJob, Bindings, JobRef, KeyConcurrency, QueueDepth, Service
from trellis_jobs.contract.manifest import to_manifest
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import utc_now
from trellis_jobs.jetstream.client import api
from trellis_jobs.model import subjects
from trellis_jobs.model.keys.state import KEYS_BUCKET, KeyAddress, KeyState
from trellis_jobs.model.values import replace
from trellis_jobs.wire import keys as wire

BUCKET: Final = "JOBS_KEYS_port"
KEY: Final = {"service": "port", "type": "unload", "key": "berth:one"}


class Ship(BaseModel):
    berth: str = "one"
    waits: bool = False


PORT: Final = example_jobs(
    "port",
    Ship,
    str,
    unload={
        "concurrency": 3,
        "ack_wait": 1,
        "shared": True,
        "key": KeyConcurrency(["berth", "/berth"], stale_policy="block"),
        "queue": QueueDepth(max_queued_per_key=5),
    },
)


def bindings(bucket: str | None) -> Bindings:
    document = {
        "namespace": "port",
        "queues": {
            "unload": {
                "publishPrefix": "trellis.jobs.port.unload",
                "workSubject": "trellis.work.port.unload",
                "consumerName": "port-unload",
            }
        },
    }
    return Bindings.from_json(document if bucket is None else {**document, "keysBucket": bucket})


@dataclass
class Dockers:
    service: Service[ExampleJobs[Ship, str]]
    running: set[str] = field(default_factory=set)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def jobs(self) -> ExampleJobs[Ship, str]:
        return self.service.jobs

    async def handle(self, active: ActiveJob[Ship]) -> str:
        self.running.add(active.id)
        if active.payload.waits:
            await self.go.wait()
        return active.payload.berth

    async def until_running(self, ref: JobRef[Any]) -> None:
        await until(lambda: ref.id in self.running, f"{ref} runs")


@asynccontextmanager
async def port(
    url: str, *, bucket: str | None = BUCKET, workers: bool = True
) -> AsyncIterator[Dockers]:
    made = Dockers(Service(PORT, bindings=bindings(bucket)))
    made.jobs.unload.handle(made.handle)
    async with made.service.connect(url, workers=workers):
        yield made


def key_in(bucket: str, **changes: Any) -> KeyState:
    key_policy = PORT.contract.queues["unload"].key_policy
    assert key_policy is not None
    key = key_policy.template.resolve({"berth": "one"})
    address = KeyAddress("port", "unload", key.hash, bucket)
    state = KeyState(address=address, display=key.display, max_active=1, max_queued=5)
    return replace(state, **changes)


async def write(raw: Probe, state: KeyState) -> None:
    encoded = wire.encode(state, wire.WaitingEntryCache())
    await raw.connection.request(subjects.key_state(state.address), encoded)


async def test_operators_see_the_keys_in_the_bucket_that_the_service_names(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """What lies in JOBS_KEYS under the same name is of an earlier time, and counts for nothing."""
    async with port(server.url) as dockers, probe(server.url) as raw:
        await write(raw, key_in(KEYS_BUCKET, active=(given.slot("01JEARLIER"),)))
        first = await dockers.jobs.unload.create(Ship(waits=True))
        await dockers.until_running(first)
        second = await dockers.jobs.unload.create(Ship())
        async with (
            looking_after(server.url, tmp_path / "jobs.sqlite"),
            AdminClient.connect(server.url) as client,
        ):
            assert [key.key async for key in client.busy_keys()] == ["berth:one"]
            shown = await client.get_key("port", "unload", "berth:one")
            assert [each.job_id for each in shown.active] == [first.id]
            assert [each.job_id for each in shown.queued] == [second.id]
            assert shown.bucket == BUCKET
            told = await ask(raw, "Jobs.Explain", {"id": second.id})
            assert [each["jobId"] for each in told["details"]["holders"]] == [first.id]
            asked = ("keys", "get", "port/unload", "berth:one", "--nats", server.url)
            printed = await asyncio.to_thread(shell, *asked)
            assert (printed.code, BUCKET in printed.out) == (0, True), printed.err
            await client.cancel(second.address)
            assert (await client.get_key("port", "unload", "berth:one")).queued == ()
            dockers.go.set()
            await first.wait(timeout=10)


async def test_a_key_is_found_there_by_its_name_though_its_jobs_have_left_the_log(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with port(server.url), probe(server.url) as raw:
        await write(raw, key_in(BUCKET, queued=(given.waiting("01JGONE", created_at=utc_now()),)))
        async with looking_after(server.url, tmp_path / "jobs.sqlite"):
            shown = await ask(raw, "Jobs.GetKey", KEY)
            assert [each["jobId"] for each in shown["queued"]] == ["01JGONE"]


async def test_a_slot_there_is_released_and_its_job_ends(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with port(server.url, workers=False) as elsewhere, probe(server.url) as raw:
        async with port(server.url) as dockers:
            done = await dockers.jobs.unload.create(Ship())
            await done.wait(timeout=10)
        ref = await elsewhere.jobs.unload.create(Ship())
        now = utc_now()
        slot = given.slot(ref.id, heartbeat_at=now, expires_at=now + timedelta(milliseconds=50))
        await write(raw, key_in(BUCKET, active=(slot,)))
        seldom = {"reconcile_interval": timedelta(hours=1)}
        async with looking_after(server.url, tmp_path / "jobs.sqlite", **seldom):

            async def is_released() -> bool:
                answer = await ask(raw, "Jobs.ReleaseKey", {**KEY, "jobId": ref.id, "by": "ann"})
                assert "seq" in answer or answer["type"] == "ValidationError", answer
                return "seq" in answer

            await until(is_released, "its lease is over")
            assert (await ask(raw, "Jobs.GetKey", KEY))["active"] == []


async def test_jobs_that_are_over_are_taken_out_of_keys_in_every_bucket(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Also where the queue has left a bucket, and another bucket is not there."""
    async with probe(server.url) as raw:
        async with port(server.url) as dockers:
            ref = await dockers.jobs.unload.create(Ship())
            await ref.wait(timeout=10)
        left = (given.waiting(ref.id, created_at=utc_now() - timedelta(minutes=1)),)
        for bucket in (BUCKET, KEYS_BUCKET):
            await write(raw, key_in(bucket, queued=left))
        await consumer_that_names(raw, "JOBS_KEYS_nowhere")
        async with looking_after(server.url, tmp_path / "jobs.sqlite") as daemon:

            async def are_empty() -> bool:
                states = [await stored(raw, bucket) for bucket in (BUCKET, KEYS_BUCKET)]
                return all(not state["queued"] for state in states)

            await until(are_empty, "both are repaired")
            await until_swept(daemon, "key repair")
            assert daemon.loops.all["key repair"].failures == 0


async def consumer_that_names(raw: Probe, bucket: str) -> None:
    config = {
        "name": "lost-queue",
        "durable_name": "lost-queue",
        "filter_subject": "trellis.work.lost.queue.*",
        "ack_policy": "explicit",
        "metadata": {"trellis.keys.bucket": bucket},
    }
    call = "CONSUMER.CREATE.JOBS_WORK.lost-queue.trellis.work.lost.queue.*"
    await api.request(raw.connection, call, {"stream_name": "JOBS_WORK", "config": config})


async def stored(raw: Probe, bucket: str) -> dict[str, Any]:
    subject = subjects.key_state(key_in(bucket).address)
    stream = subjects.stream_of_bucket(bucket)
    message = await api.newest(raw.connection, stream, subject)
    state: dict[str, Any] = orjson.loads(message.data)
    return state


async def test_where_no_consumer_names_the_bucket_that_is_said(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        port(server.url, workers=False) as producer,
        looking_after(server.url, tmp_path / "jobs.sqlite"),
        AdminClient.connect(server.url) as client,
    ):
        ref = await producer.jobs.unload.create(Ship())

        async def is_known() -> bool:
            return any([key.key == "berth:one" async for key in client.busy_keys()])

        await until(is_known, f"the projection has {ref}")
        with pytest.raises(NotFound, match="may keep its keys in another one"):
            await client.get_key("port", "unload", "berth:one")
        async with port(server.url) as dockers:
            shown = await client.get_key("port", "unload", "berth:one")
            assert shown.bucket == BUCKET
            dockers.go.set()
            await ref.wait(timeout=10)


async def test_a_queue_that_goes_back_to_the_usual_bucket_is_seen_there(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with port(server.url):
        pass
    async with (
        port(server.url, bucket=None) as dockers,
        looking_after(server.url, tmp_path / "jobs.sqlite"),
        AdminClient.connect(server.url) as client,
    ):
        ref = await dockers.jobs.unload.create(Ship(waits=True))
        await dockers.until_running(ref)

        async def is_known() -> bool:
            return any([key.key == "berth:one" async for key in client.busy_keys()])

        await until(is_known, "the projection has it")
        shown = await client.get_key("port", "unload", "berth:one")
        assert (shown.bucket, len(shown.active)) == (KEYS_BUCKET, 1)
        dockers.go.set()
        await ref.wait(timeout=10)


@pytest.mark.parametrize("from_file", [False, True])
async def test_jobs_that_operators_create_are_let_in_by_the_same_bucket(
    server: EmbeddedServer, tmp_path: Path, *, from_file: bool
) -> None:
    async with port(server.url) as dockers, probe(server.url) as raw:
        ref = await dockers.jobs.unload.create(Ship(waits=True))
        await dockers.until_running(ref)
        manifest = tmp_path / "port.json"
        manifest.write_bytes(orjson.dumps(to_manifest(PORT.contract)))
        known_by = ("--contract", str(manifest)) if from_file else ()
        create = ("jobs", "create", "port/unload", '{"berth": "one"}', "--nats", server.url)
        created = await asyncio.to_thread(shell, *create, *known_by)
        assert created.code == 0, created.err
        assert len((await stored(raw, BUCKET))["queued"]) == 1
        info = await api.request(raw.connection, "STREAM.INFO.KV_JOBS_KEYS")
        assert info["state"]["messages"] == 0
        dockers.go.set()


WITHOUT_THE_BUCKET: Final = f"""
authorization {{ users: [
  {{ user: port, password: port }}
  {{ user: admin, password: admin, permissions: {{ publish: {{ deny: [
    "$KV.{BUCKET}.>", "$JS.API.DIRECT.GET.KV_{BUCKET}.>", "$JS.API.STREAM.INFO.KV_{BUCKET}",
    "$JS.API.CONSUMER.CREATE.KV_{BUCKET}.>"
  ] }} }} }}
] }}
"""


async def test_an_admin_runtime_that_may_not_use_the_bucket_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with EmbeddedServer.start(config=WITHOUT_THE_BUCKET) as server:
        url = server.url.replace("://", "://{0}:{0}@")
        async with (
            port(url.format("port")) as dockers,
            probe(url.format("port")) as raw,
            looking_after(url.format("admin"), tmp_path / "jobs.sqlite") as daemon,
        ):
            await write(raw, key_in(BUCKET, queued=(given.waiting("01JGONE"),)))
            ref = await dockers.jobs.unload.create(Ship(berth="two"))
            await ref.wait(timeout=10)
            await until_projected(daemon, (await raw.events.history(ref.address))[-1].sequence)
            for key in ("berth:one", "berth:two"):
                refused = await ask(raw, "Jobs.GetKey", {**KEY, "key": key})
                assert refused["type"] == "UnexpectedError"
                assert f"keys are in the bucket {BUCKET}, which the admin" in refused["message"]
            await until_swept(daemon, "key repair")
            assert daemon.loops.all["key repair"].failures == 0
    assert caplog.text.count(f"the keys in bucket {BUCKET} are not repaired") == 1
