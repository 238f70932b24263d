"""Workers send heartbeats, and workers that stop sending them count as dead."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from importlib.metadata import version

from tests.support.facts import until
from tests.support.lab import LAB, Probe, lab_worker, probe, producer, worker
from tests.support.servers import start_version
from trellis_jobs import Workers
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import Environment
from trellis_jobs.jetstream.client.message import Message
from trellis_jobs.jetstream.log.heartbeats import newest_heartbeats
from trellis_jobs.jetstream.log.presence import Presence
from trellis_jobs.model import subjects
from trellis_jobs.model.presence import WorkerHeartbeat
from trellis_jobs.model.subjects import PresenceSubject
from trellis_jobs.telemetry import Telemetry
from trellis_jobs.wire import presence as wire
from trellis_jobs.worker.dependencies import HostDependencies
from trellis_jobs.worker.handlers import Handlers
from trellis_jobs.worker.host import WorkerHost

SHORT = timedelta(seconds=0.3)
WORK_HEARTBEATS = "trellis.jobs.workers.lab.work.*.heartbeat"


async def newest(raw: Probe, subject: str) -> Message | None:
    message = await raw.connection.request(f"$JS.API.DIRECT.GET.JOBS.{subject}")
    return None if "Status" in (message.headers or {}) else message


async def heartbeat(raw: Probe, queue: str = "work") -> Message:
    subject = f"trellis.jobs.workers.lab.{queue}.*.heartbeat"
    return await until(lambda: newest(raw, subject), f"a heartbeat of {queue}")


async def death(presence: Presence, instance: str) -> str | None:
    return await presence.death_reason(PresenceSubject("lab", "work", instance), "lab-work")


def subject_of(message: Message) -> str:
    return (message.headers or {})["Nats-Subject"]


async def test_a_worker_sends_a_heartbeat_for_each_queue(server: EmbeddedServer) -> None:
    async with worker(server.url, "work", "single"), probe(server.url) as raw:
        beats = [await heartbeat(raw, queue) for queue in ("work", "single")]
    bodies = [json.loads(beat.data) for beat in beats]
    assert [(body["jobType"], body["concurrency"]) for body in bodies] == [
        ("work", 10),
        ("single", 1),
    ]
    assert {body["service"] for body in bodies} == {"lab"}
    assert {body["version"] for body in bodies} == {version("trellis-jobs")}
    (instance,) = {body["instanceId"] for body in bodies}
    assert subject_of(beats[0]) == f"trellis.jobs.workers.lab.work.{instance}.heartbeat"
    parsed = subjects.parse(subject_of(beats[0]))
    assert isinstance(parsed, subjects.PresenceSubject)
    decoded = wire.decode(beats[0].data, expected=parsed)
    assert isinstance(decoded, WorkerHeartbeat)
    assert abs(decoded.at - datetime.now(UTC)) < timedelta(seconds=20)


async def test_a_heartbeat_expires_after_half_a_minute(server: EmbeddedServer) -> None:
    async with worker(server.url, "work"), probe(server.url) as raw:
        beat = await heartbeat(raw)
    assert (beat.headers or {})["Nats-TTL"] == "30s"


async def test_each_connection_of_a_service_is_a_separate_instance(
    server: EmbeddedServer,
) -> None:
    made = lab_worker()
    instances: list[str] = []
    async with probe(server.url) as raw:
        for _ in range(2):
            async with made.service.connect(server.url, workers=Workers(queues=["work"])):

                async def a_new_one() -> str | None:
                    beat = await newest(raw, WORK_HEARTBEATS)
                    instance = subject_of(beat).split(".")[5] if beat else None
                    return None if instance in instances else instance

                instances.append(await until(a_new_one))
    assert len(set(instances)) == 2


@asynccontextmanager
async def short_lived(raw: Probe) -> AsyncIterator[tuple[WorkerHost, Presence]]:
    """Runs a worker whose heartbeats are sent, and expire, more than ten times as fast."""
    presence = Presence(raw.connection, raw.features, interval=SHORT)
    handlers = Handlers()
    handlers.register(LAB.contract.queues["work"], lab_worker().handle, "the handler of the test")
    dependencies = HostDependencies(
        raw.connection, raw.events, presence, Telemetry(), Environment()
    )
    host = WorkerHost("lab", list(handlers), dependencies)
    await host.start()
    try:
        yield host, presence
    finally:
        await host.stop(1)


async def test_a_worker_is_present_while_it_lives_and_gone_soon_after(
    server: EmbeddedServer,
) -> None:
    async with producer(server.url), probe(server.url) as raw:
        async with short_lived(raw) as (host, presence):
            first = await heartbeat(raw)

            async def first_has_expired() -> bool:
                body = {"seq": int((first.headers or {})["Nats-Sequence"])}
                answer = await raw.connection.request(
                    "$JS.API.DIRECT.GET.JOBS", json.dumps(body).encode()
                )
                return (answer.headers or {}).get("Status") == "404"

            await until(first_has_expired)

            async def is_there() -> bool:
                return await death(presence, host.instance) is None

            await until(is_there, "a later heartbeat is in the log")
        await until(lambda: death(presence, host.instance))

        async def none_is_left() -> bool:
            return await newest(raw, WORK_HEARTBEATS) is None

        await until(none_is_left, "the last heartbeat has expired too")
        assert await death(presence, host.instance) == "died: the log holds no heartbeat of it"


async def test_a_worker_that_stops_sends_a_last_heartbeat(server: EmbeddedServer) -> None:
    async with probe_of_a_stopped_worker(server.url) as (raw, instance):
        last = await newest(raw, WORK_HEARTBEATS)
        assert last is not None
        assert json.loads(last.data)["stopping"] is True
        assert (last.headers or {})["Nats-TTL"] == "30s"
        presence = Presence(raw.connection, raw.features)
        assert await death(presence, instance) == "stopped"
        assert await presence.newest("lab", "work", instance) == 0
        assert await newest_heartbeats(raw.connection) == []


@asynccontextmanager
async def probe_of_a_stopped_worker(url: str) -> AsyncIterator[tuple[Probe, str]]:
    """The heartbeats of the stopped worker are still in the log."""
    async with producer(url), probe(url) as raw:
        async with worker(url, "work"):
            instance = subject_of(await heartbeat(raw)).split(".")[5]

        async def has_two() -> bool:
            filtered = json.dumps({"subjects_filter": WORK_HEARTBEATS}).encode()
            answer = await raw.connection.request("$JS.API.STREAM.INFO.JOBS", filtered)
            return bool(sum(json.loads(answer.data)["state"]["subjects"].values()) > 1)

        await until(has_two, "its first heartbeat and its last")
        yield raw, instance


async def test_a_worker_that_could_never_send_a_heartbeat_counts_as_dead(
    server: EmbeddedServer,
) -> None:
    async with producer(server.url), probe(server.url) as raw:
        presence = Presence(raw.connection, raw.features)
        assert await death(presence, "unknown") == "died: the log holds no heartbeat of it"


async def test_where_heartbeats_cannot_expire_a_worker_without_one_is_not_called_dead() -> None:
    with start_version("2.10.26") as server:
        async with worker(server.url, "work"), probe(server.url) as raw:
            beat = await heartbeat(raw)
            assert "Nats-TTL" not in (beat.headers or {})
            assert await death(Presence(raw.connection, raw.features), "unknown") is None
