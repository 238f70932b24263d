"""A service with rights to its own subjects only: enough for jobs, not enough to provision."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.keys import keyed_lab
from tests.keys.keyed_lab import HELPDESK, Key
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import LAB, Probe, lab_worker, probe, producer, worker
from tests.support.worker_process import worker_process
from trellis_jobs import JobCancelled, QueueFull, Service, Workers
from trellis_jobs.contract.declaration import ServiceContract
from trellis_jobs.contract.permissions.grants import of_provisioner, of_service
from trellis_jobs.contract.topology import Topology, queue_consumer
from trellis_jobs.embedded import HOST, EmbeddedServer
from trellis_jobs.errors import InfrastructureMissing, NotPermitted
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connect_options import ConnectOptions
from trellis_jobs.jetstream.client.message import Message
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.jetstream.work.consumer_setup import ensure_consumer
from trellis_jobs.model.states import JobState

QUEUES: Final = ("work", "slow")
AT_ONCE: Final = api.TIMEOUT  # the time that a request without an answer takes


def rights(contract: ServiceContract, *without: str) -> str:
    """As they are printed, but for those calls that begin so."""
    granted = of_service(contract)
    publish = [each for each in granted.publish if not each.startswith(without)]
    return json.dumps({"publish": publish, "subscribe": granted.subscribe})


def user(name: str, permissions: str | None = None) -> str:
    held_to = f", permissions: {permissions}" if permissions else ""
    return f"{{ user: {name}, password: {name}{held_to} }}"


PROVISIONER: Final = of_provisioner("provisioner")
PROVISION: Final = json.dumps({"publish": PROVISIONER.publish, "subscribe": PROVISIONER.subscribe})
INBOXES: Final = {
    "attacher": "_INBOX_lab",
    "producer": "_INBOX_lab",
    "helpdesk": "_INBOX_helpdesk",
    "provisioner": "_INBOX_provisioner",
}
CONTRACT: Final = LAB.contract
MAKE: Final = ("$JS.API.CONSUMER.CREATE.JOBS_WORK",)
WORK: Final = ("$JS.API.CONSUMER.CREATE.JOBS_WORK", "$JS.API.CONSUMER.INFO", "$JS.ACK")
KEYS: Final = ("$KV", "$JS.API.DIRECT.GET.KV_JOBS_KEYS")

CONFIG: Final = f"""
authorization {{ users: [
    {user("operator")}
    {user("service", rights(CONTRACT))}
    {user("attacher", rights(CONTRACT, *MAKE))}
    {user("producer", rights(CONTRACT, *WORK))}
    {user("provisioner", PROVISION)}
    {user("helpdesk", rights(HELPDESK.contract))}
    {user("keyless", rights(HELPDESK.contract, *KEYS))}
] }}
"""


@pytest.fixture
def guarded() -> Iterator[EmbeddedServer]:
    with EmbeddedServer.start(config=CONFIG) as running:
        yield running


def url(server: EmbeddedServer, name: str) -> str:
    return f"nats://{name}:{name}@{HOST}:{server.port}"


def raw_access(server: EmbeddedServer, name: str) -> AbstractAsyncContextManager[Probe]:
    return probe(ConnectOptions(servers=url(server, name), inbox_prefix=INBOXES[name]))


async def provisioned(server: EmbeddedServer) -> None:
    async with probe(url(server, "operator")) as raw:
        await provision(raw.connection, Topology(raw.features))


@asynccontextmanager
async def overheard(server: EmbeddedServer) -> AsyncIterator[list[str]]:
    """Every request to JetStream that the server let through."""
    heard: list[str] = []

    def listen(message: Message) -> None:
        heard.append(message.subject)

    async with probe(url(server, "operator")) as raw:
        await raw.connection.subscribe("$JS.API.>", listen)
        await raw.connection.flush()
        yield heard


async def test_a_service_creates_runs_retries_cancels_and_reads_its_jobs(
    guarded: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    await provisioned(guarded)
    async with worker(url(guarded, "service"), *QUEUES) as working:
        again = await working.jobs.work.create(Task(do="fail once"))
        running = await working.jobs.slow.create(Task(do="wait"))
        assert (await again.wait(timeout=10)).tries == 2
        await working.until_running(running)
        await running.cancel("no longer needed")
        with pytest.raises(JobCancelled):
            await running.wait(timeout=10)
        await until(lambda: working.cancelled == [running.id])
        assert [event.kind for event in await again.events()][-1] == "completed"
        assert (await again.get()).state is JobState.COMPLETED
        several = await working.jobs.work.create_many([Task(text=str(n)) for n in range(20)])
        assert [(await ref.wait(timeout=10)).text for ref in several] == [str(n) for n in range(20)]
    assert "violation" not in caplog.text


async def test_a_lost_attempt_is_taken_over_with_the_rights_of_a_service(
    guarded: EmbeddedServer, tmp_path: Path
) -> None:
    await provisioned(guarded)
    mine = url(guarded, "service")
    async with producer(mine) as jobs:
        ref = await jobs.work.create(Task(do="hang"))
        with worker_process(mine, tmp_path, "work") as doomed:
            await doomed.until_running(ref.id)
            doomed.kill()
        async with worker(mine, "work"):
            assert (await ref.wait(timeout=10)).tries == 2
        assert [error.type for error in (await ref.get()).errors] == ["worker_death"]


async def test_a_start_asks_only_for_its_own_consumers(guarded: EmbeddedServer) -> None:
    await provisioned(guarded)
    async with overheard(guarded) as heard, worker(url(guarded, "service"), "work") as working:
        ref = await working.jobs.work.create(Task())
        await ref.wait(timeout=10)
        await ref.get()
    heard = [subject for subject in heard if "to-work" not in subject]  # the server's own source
    asked = {".".join(subject.split(".")[2:4]) for subject in heard}
    assert asked == {"CONSUMER.CREATE", "CONSUMER.INFO", "CONSUMER.MSG", "DIRECT.GET"}
    assert not any("STREAM.INFO" in subject for subject in heard)
    about_work = {s for s in heard if ".JOBS_WORK" in s and "MSG.NEXT" not in s}
    # The first of its own consumers that answers tells the server's time.
    own = {f"$JS.API.CONSUMER.INFO.JOBS_WORK.lab-{name}" for name in CONTRACT.queues}
    assert about_work - own == {
        "$JS.API.CONSUMER.CREATE.JOBS_WORK.lab-work.trellis.work.lab.work.*"
    }


async def test_not_being_allowed_to_provision_costs_no_time(guarded: EmbeddedServer) -> None:
    await provisioned(guarded)
    began = time.monotonic()
    async with worker(url(guarded, "service"), *QUEUES):
        assert time.monotonic() - began < AT_ONCE


@pytest.mark.parametrize("name", ["service", "attacher", "producer"])
async def test_without_an_operators_provisioning_the_start_fails_at_once(
    guarded: EmbeddedServer, name: str
) -> None:
    began = time.monotonic()
    workers = False if name == "producer" else Workers(queues=QUEUES)
    with pytest.raises(InfrastructureMissing, match="infra apply"):
        async with lab_worker().service.connect(url(guarded, name), workers=workers):
            pass
    assert time.monotonic() - began < AT_ONCE


async def test_a_consumer_made_by_an_operator_is_enough_and_its_lease_counts(
    guarded: EmbeddedServer,
) -> None:
    await provisioned(guarded)
    desired = queue_consumer("lab", LAB.contract.queues["work"])
    with pytest.raises(InfrastructureMissing, match="consumer lab-work"):
        async with worker(url(guarded, "attacher"), "work"):
            pass
    async with probe(url(guarded, "operator")) as raw:
        await ensure_consumer(raw.connection, desired | {"ack_wait": 7_000_000_000})
    async with raw_access(guarded, "attacher") as raw:
        in_force = await ensure_consumer(raw.connection, desired)
        assert in_force["ack_wait"] == 7_000_000_000
    async with worker(url(guarded, "attacher"), "work") as working:
        ref = await working.jobs.work.create(Task(text="attached"))
        assert (await ref.wait(timeout=10)).text == "attached"


async def test_provisioning_needs_no_rights_to_jobs(guarded: EmbeddedServer) -> None:
    async with raw_access(guarded, "provisioner") as raw:
        assert not (await provision(raw.connection, Topology(raw.features))).is_unchanged
        assert (await provision(raw.connection, Topology(raw.features))).is_unchanged
    async with worker(url(guarded, "service"), "work") as working:
        assert (await (await working.jobs.work.create(Task())).wait(timeout=10)).tries == 1


async def test_a_producer_needs_no_rights_to_work(guarded: EmbeddedServer) -> None:
    await provisioned(guarded)
    service = Service(LAB)
    async with (
        service.connect(url(guarded, "producer"), workers=False),
        worker(url(guarded, "service"), "work"),
    ):
        ref = await service.jobs.work.create(Task(text="from afar"))
        assert (await ref.wait(timeout=10)).text == "from afar"
        assert (await ref.get()).state is JobState.COMPLETED


async def test_what_is_denied_is_said_at_once_and_by_name(guarded: EmbeddedServer) -> None:
    async with raw_access(guarded, "producer") as raw:
        began = time.monotonic()
        with pytest.raises(NotPermitted, match=r"STREAM\.INFO\.JOBS_WORK"):
            await api.request(raw.connection, "STREAM.INFO.JOBS_WORK")
        assert time.monotonic() - began < AT_ONCE


async def test_a_denied_message_without_a_waiting_caller_is_logged(
    guarded: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with raw_access(guarded, "producer") as raw:
        await raw.connection.publish("$JS.ACK.JOBS_WORK.lab-work.1", b"+ACK")
        await raw.connection.flush()
        await until(lambda: [r for r in caplog.records if "connection to nats://" in r.message])


async def test_a_service_with_keys_creates_runs_refuses_and_cancels_with_rights_to_its_own(
    guarded: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    await provisioned(guarded)
    async with (
        keyed_lab.worker(url(guarded, "helpdesk"), "patient") as working,
        probe(url(guarded, "operator")) as raw,
    ):
        queue, key = working.jobs.patient, Key(raw, "patient")
        running = await queue.create(Task(do="wait"))
        await working.until_running(running)
        waiting = await queue.create(Task())
        with pytest.raises(QueueFull):
            await queue.create(Task())
        await waiting.cancel()
        assert await key.queued() == []
        last = await queue.create(Task())
        working.go.set()
        assert (await last.wait(timeout=10)).tries == 1
        await key.until_free()
    assert "violation" not in caplog.text


async def test_a_service_cannot_touch_the_keys_of_another(guarded: EmbeddedServer) -> None:
    await provisioned(guarded)
    theirs, heard = "$KV.JOBS_KEYS.lab.work.abc", list[str]()

    def listen(message: Message) -> None:
        heard.append(message.subject)

    async with (
        probe(url(guarded, "operator")) as operator,
        raw_access(guarded, "helpdesk") as raw,
    ):
        await operator.connection.request(theirs, b"theirs")
        with pytest.raises(NotPermitted, match="lab"):
            await raw.connection.request(theirs, b"ours")
        with pytest.raises(NotPermitted, match="lab"):
            await raw.connection.request(f"$JS.API.DIRECT.GET.KV_JOBS_KEYS.{theirs}")
        await raw.connection.subscribe("$KV.JOBS_KEYS.lab.>", listen)
        await raw.connection.subscribe("$KV.JOBS_KEYS.helpdesk.>", listen)
        await raw.connection.flush()
        for subject in (theirs, "$KV.JOBS_KEYS.helpdesk.patient.abc"):
            await operator.connection.request(subject, b"an update")
        await until(lambda: heard, "it receives the message of its own key")
        assert heard == ["$KV.JOBS_KEYS.helpdesk.patient.abc"]


async def test_a_service_without_rights_to_its_keys_is_told_so_by_name(
    guarded: EmbeddedServer,
) -> None:
    await provisioned(guarded)
    async with keyed_lab.producer(url(guarded, "keyless")) as jobs:
        began = time.monotonic()
        with pytest.raises(NotPermitted, match=r"KV_JOBS_KEYS\.\$KV\.JOBS_KEYS\.helpdesk\.patient"):
            await jobs.patient.create(Task())
        assert time.monotonic() - began < AT_ONCE
