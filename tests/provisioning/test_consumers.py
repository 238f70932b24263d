"""Each queue's durable consumer: made by the service, or found fit, or refused with a reason."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from tests.support.example_service import Report, Task, example_jobs
from tests.support.facts import until
from tests.support.lab import LAB, Probe, lab_worker, probe, producer, worker
from trellis_jobs import ActiveJob, Service, Workers
from trellis_jobs.contract.consumer_metadata import CONTRACT, read_contract
from trellis_jobs.contract.topology import Config, Topology, consumer_name, queue_consumer
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import InfrastructureMismatch
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.jetstream.work.consumer_setup import ensure_consumer

DESIRED = queue_consumer("lab", LAB.contract.queues["work"])


@pytest.fixture
async def raw(server: EmbeddedServer) -> AsyncIterator[Probe]:
    async with probe(server.url) as probing:
        await provision(probing.connection, Topology(probing.features))
        yield probing


async def make_consumer(raw: Probe, config: Config, **different: Any) -> None:
    config = config | different
    body = {"stream_name": "JOBS_WORK", "action": "create", "config": config}
    await api.request(raw.connection, f"CONSUMER.CREATE.JOBS_WORK.{config['name']}", body)


async def start(server: EmbeddedServer) -> None:
    async with lab_worker().service.connect(server.url, workers=Workers(queues=["work"])):
        pass


async def test_a_consumer_has_no_backoff_no_limit_and_the_lease_of_its_queue(
    server: EmbeddedServer, raw: Probe
) -> None:
    async with worker(server.url, "work"):
        config = (await raw.consumer("work"))["config"]
    assert config["filter_subject"] == "trellis.work.lab.work.*"
    assert config["ack_wait"] == 1_000_000_000
    assert (config["max_deliver"], config["max_ack_pending"]) == (-1, -1)
    assert "backoff" not in config
    assert "deliver_subject" not in config


async def test_a_second_start_attaches_and_changes_nothing(
    server: EmbeddedServer, raw: Probe
) -> None:
    await start(server)
    before = await raw.consumer("work")
    await start(server)
    after = await raw.consumer("work")
    assert (after["created"], after["config"]) == (before["created"], before["config"])


async def test_reads_of_a_jobs_history_leave_no_consumers_behind(
    server: EmbeddedServer, raw: Probe
) -> None:
    async with producer(server.url) as jobs:
        ref = await jobs.work.create(Task())
        for _ in range(200):
            await ref.get()

        async def only_the_source_is_left() -> bool:
            info = await api.request(raw.connection, "STREAM.INFO.JOBS")
            return bool(info["state"]["consumer_count"] == 1)

        await until(only_the_source_is_left)


@pytest.mark.parametrize(
    ("difference", "named"),
    [
        ({"filter_subject": "trellis.work.lab.other.*"}, "filter_subject"),
        ({"backoff": [1_000_000_000, 2_000_000_000], "max_deliver": 5}, "backoff"),
        ({"deliver_subject": "somewhere"}, "deliver_subject"),
    ],
)
async def test_an_unfit_consumer_fails_the_start_and_is_left_alone(
    server: EmbeddedServer, raw: Probe, difference: Config, named: str
) -> None:
    await make_consumer(raw, DESIRED, **difference)
    before = (await raw.consumer("work"))["config"]
    with pytest.raises(InfrastructureMismatch) as refused:
        await start(server)
    assert refused.value.what == "consumer lab-work of JOBS_WORK"
    assert [each.split()[0] for each in refused.value.differences] == [named]
    assert (await raw.consumer("work"))["config"] == before


DASHED: Final = example_jobs(
    "a-b",
    Task,
    Report,
    c={},
)


OTHER: Final = example_jobs(
    "a",
    Task,
    Report,
    b_c={},
)


async def test_two_services_whose_consumers_would_share_a_name_do_not_share_it(
    server: EmbeddedServer,
) -> None:
    assert consumer_name("a-b", "c") == consumer_name("a", "b-c")
    first, second = Service(DASHED), Service(OTHER)

    async def handle(active: ActiveJob[Task]) -> Report:
        return Report(text=active.payload.text, tries=active.tries)

    first.jobs.c.handle(handle)
    second.jobs.b_c.handle(handle)
    async with first.connect(server.url):
        with pytest.raises(InfrastructureMismatch, match=r"trellis\.work\.a\.b-c\.\*"):
            async with second.connect(server.url):
                pass


async def test_a_second_consumer_for_the_same_work_fails_the_start(
    server: EmbeddedServer, raw: Probe
) -> None:
    await make_consumer(raw, DESIRED, name="intruder", durable_name="intruder")
    with pytest.raises(InfrastructureMismatch, match="another consumer takes the work"):
        await start(server)


async def test_another_lease_is_brought_up_to_date_and_unknown_settings_survive(
    server: EmbeddedServer, raw: Probe
) -> None:
    own = {"description": "kept", "metadata": {"owner": "platform"}, "inactive_threshold": 0}
    await make_consumer(raw, DESIRED, ack_wait=60_000_000_000, **own)
    in_force = await ensure_consumer(raw.connection, DESIRED)
    config = (await raw.consumer("work"))["config"]
    assert in_force["ack_wait"] == config["ack_wait"] == 1_000_000_000
    assert (config["description"], config["metadata"]["owner"]) == ("kept", "platform")


async def contract_of(raw: Probe, queue: str) -> str:
    metadata: dict[str, str] = (await raw.consumer(queue))["config"]["metadata"]
    return metadata[CONTRACT]


async def test_a_consumer_tells_what_its_queue_takes(server: EmbeddedServer, raw: Probe) -> None:
    async with worker(server.url, "work"):
        note = await contract_of(raw, "work")
    queue = read_contract({CONTRACT: note}, "lab", "work")
    assert queue is not None
    assert (queue.ack_wait, queue.retry.max_tries) == (timedelta(seconds=1), 3)
    assert queue.payload.schema() == LAB.contract.queues["work"].payload.schema()


async def test_a_newer_deploy_tells_the_newer_contract_and_a_pause_outlives_it(
    server: EmbeddedServer, raw: Probe
) -> None:
    older = replace(LAB.contract.queues["work"], concurrency=7)
    await ensure_consumer(raw.connection, queue_consumer("lab", older))
    pause = {"pause_until": "2100-01-01T00:00:00Z"}
    await api.request(raw.connection, "CONSUMER.PAUSE.JOBS_WORK.lab-work", pause)
    await start(server)
    after = await raw.consumer("work")
    assert after["config"]["metadata"][CONTRACT] == DESIRED["metadata"][CONTRACT]
    assert after["paused"]


async def test_two_versions_at_once_do_not_fight_over_the_contract(
    server: EmbeddedServer, raw: Probe
) -> None:
    """Only a start writes: what the second wrote stays, however long both run."""
    other = queue_consumer("lab", replace(LAB.contract.queues["work"], concurrency=7))
    async with worker(server.url, "work") as first:
        await ensure_consumer(raw.connection, other)
        ref = await first.jobs.work.create(Task())
        await ref.wait(10)
        assert await contract_of(raw, "work") == other["metadata"][CONTRACT]
