"""The work queue reads the log at a random subject, and older installations are moved to one.

With the fixed subject `_src.jobs.work` ten push consumers of one service and a flood of 15,000
events made ten jobs of another service take 7.9 s instead of 0.04 s, 220 of them 20 s.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Final

import pytest

from tests.provisioning.work_queue import apply, busy, consumer, set_sources, work
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.former_installation import FIXED, install
from tests.support.lab import Probe, lab_worker, probe, producer, worker
from tests.support.servers import NEWEST, start_version
from trellis_jobs.contract.features import LEVEL_2_14, Features
from trellis_jobs.contract.topology import FIXED_DELIVERY, Config, Topology
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import InfrastructureMismatch
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.setup.plan import Act
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.jetstream.setup.work_source import (
    Step,
    WorkSource,
    is_all_acknowledged,
    next_step,
)

DURABLE_SOURCES: Final = (NEWEST, "2.14.6")
every_server = pytest.mark.parametrize("version", DURABLE_SOURCES)


async def subjects(raw: Probe) -> tuple[str, str | None]:
    """Where the consumer delivers, and where the source listens."""
    sources = (await work(raw))["config"].get("sources") or [{"consumer": {}}]
    delivers_to: str = (await consumer(raw))["config"]["deliver_subject"]
    return delivers_to, sources[0]["consumer"].get("deliver_subject")


async def listens(raw: Probe) -> bool:
    return bool((await consumer(raw)).get("push_bound"))


async def test_every_installation_has_another_subject() -> None:
    found = set()
    for _ in range(2):
        with EmbeddedServer.start() as server:
            async with probe(server.url) as raw:
                await provision(raw.connection, Topology(raw.features))
                delivers_to, listens_at = await subjects(raw)
                assert delivers_to == listens_at
                assert len(delivers_to.removeprefix(f"{FIXED_DELIVERY}.")) == 32
                found.add(delivers_to)
                assert (await apply(raw)).is_unchanged
    assert len(found) == 2


async def test_a_service_keeps_the_fixed_subject_and_says_who_can_change_it(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Services of older versions refuse to start at a subject that they do not know."""
    async with probe(server.url) as raw:
        await install(raw, FIXED)
        async with lab_worker().service.connect(server.url):
            assert await subjects(raw) == (FIXED_DELIVERY, FIXED_DELIVERY)
    assert "every service knows its deliver_subject" in caplog.text
    assert "`trellis-jobs infra apply` makes it random" in caplog.text


@every_server
async def test_a_move_under_load_loses_and_doubles_no_job(version: str) -> None:
    with start_version(version) as server:
        async with probe(server.url) as raw:
            await install(raw, FIXED)
            async with busy(server.url, raw):
                [change] = [each for each in (await apply(raw)).changes if each.act is Act.UPDATED]
                assert change.name == "JOBS/to-work"
            delivers_to, listens_at = await subjects(raw)
            assert delivers_to == listens_at != FIXED_DELIVERY
            assert not (await consumer(raw)).get("paused")
            assert (await apply(raw)).is_unchanged
            server.kill()
            server.restart()
            async with worker(server.url, "work") as at_work:
                ref = await at_work.jobs.work.create(Task())
                await ref.wait(timeout=20)


@every_server
@pytest.mark.parametrize("dies_after", ["detaching", "moving", "attaching elsewhere"])
async def test_the_service_that_starts_next_goes_on_after_a_crash(
    version: str, dies_after: str
) -> None:
    with start_version(version) as server:
        async with probe(server.url) as raw, worker(server.url, "work") as at_work:
            before = await at_work.jobs.work.create_many([Task()] * 20)
            [await ref.wait(timeout=10) for ref in before]
            found = await consumer(raw)
            [source] = (await work(raw))["config"]["sources"]
            await set_sources(raw)
            if dies_after != "detaching":
                moved = found["config"] | {"deliver_subject": f"{FIXED_DELIVERY}.moved"}
                body = {"stream_name": "JOBS", "action": "update", "config": moved}
                await api.request(raw.connection, "CONSUMER.CREATE.JOBS.to-work", body)
            if dies_after == "attaching elsewhere":
                await set_sources(raw, source)
            during = await at_work.jobs.work.create_many([Task()] * 20)
            await provision(raw.connection, Topology(raw.features))
            for ref in during:
                await ref.wait(timeout=20)
            assert sorted(at_work.runs) == sorted((ref.id, 1) for ref in [*before, *during])
            delivers_to, listens_at = await subjects(raw)
            assert delivers_to == listens_at


async def test_several_operators_and_services_at_once_end_with_one_subject(
    server: EmbeddedServer,
) -> None:
    async with AsyncExitStack() as stack:
        several = [await stack.enter_async_context(probe(server.url)) for _ in range(4)]
        raw = several[0]
        await install(raw, FIXED)
        async with worker(server.url, "work") as at_work:
            refs = await at_work.jobs.work.create_many([Task()] * 20)
            starting = [stack.enter_async_context(producer(server.url)) for _ in range(3)]
            await asyncio.gather(*map(apply, several), *starting)
            refs += await at_work.jobs.work.create_many([Task()] * 20)
            for ref in refs:
                await ref.wait(timeout=20)
            assert sorted(at_work.runs) == sorted((ref.id, 1) for ref in refs)
        delivers_to, listens_at = await subjects(raw)
        assert delivers_to == listens_at != FIXED_DELIVERY
        assert await listens(raw)


@every_server
@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
async def test_a_deleted_consumer_is_made_again_and_every_job_arrives_once(
    version: str, restarted: bool
) -> None:
    """Made like a new one it would stop for good after the 1,000 events that the source skips."""
    with start_version(version) as server:
        async with probe(server.url) as raw, producer(server.url) as jobs:
            await jobs.work.create_many([Task()] * 1500)
            await until(lambda: are_there(raw, 1500), "they are in the work queue")
            await api.request(raw.connection, "CONSUMER.DELETE.JOBS.to-work")
            await jobs.work.create_many([Task()] * 100)
            if restarted:
                server.kill()
                server.restart()
            await apply(raw)
            await until(lambda: are_there(raw, 1600), "the others are there as well")
            await until(lambda: has_nothing_left(raw), "everything is confirmed")
            assert (await work(raw))["state"]["last_seq"] == 1600
            await jobs.work.create(Task())
            await until(lambda: are_there(raw, 1601), "the source goes on after what it skipped")
            await until(lambda: has_nothing_left(raw), "that is confirmed as well")


async def are_there(raw: Probe, count: int) -> bool:
    return int((await work(raw))["state"]["messages"]) >= count


async def has_nothing_left(raw: Probe) -> bool:
    """Every event was delivered, and the source has confirmed all of them."""
    info = await consumer(raw)
    return bool(info["num_pending"] == 0 and is_all_acknowledged(info))


@pytest.mark.parametrize(
    "wrong",
    [{"filter_subjects": ["trellis.jobs.*.*.*.created"]}, {"ack_policy": "none"}],
    ids=["another filter", "another ack policy"],
)
async def test_an_operator_repairs_what_a_service_refuses(
    server: EmbeddedServer, wrong: Config
) -> None:
    async with probe(server.url) as raw:
        await provision(raw.connection, Topology(raw.features))
        desired = (await consumer(raw))["config"]
        await api.request(raw.connection, "CONSUMER.DELETE.JOBS.to-work")
        config = desired | wrong
        if "ack_policy" in wrong:
            config = {key: config[key] for key in config if key != "max_ack_pending"}
        body = {"stream_name": "JOBS", "action": "create", "config": config}
        await api.request(raw.connection, "CONSUMER.CREATE.JOBS.to-work", body)
        with pytest.raises(InfrastructureMismatch, match=next(iter(wrong))):
            await provision(raw.connection, Topology(raw.features))
        await apply(raw)
        repaired = (await consumer(raw))["config"]
        assert {key: repaired[key] for key in wrong} == {key: desired[key] for key in wrong}
    async with worker(server.url, "work") as at_work:
        assert (await (await at_work.jobs.work.create(Task(text="hi"))).wait(timeout=20)).tries == 1


TOPOLOGY: Final = Topology(Features("2.15.1", LEVEL_2_14))
DESIRED: Final = TOPOLOGY.to_work() or {}
MOVED: Final = DESIRED | {"deliver_subject": "random"}
WITHOUT_LANES: Final = [each for each in DESIRED["filter_subjects"] if each.count("*") == 3]
CONSUMERS: Final = [
    None,
    DESIRED,
    MOVED,
    MOVED | {"ack_policy": "none"},
    DESIRED | {"filter_subjects": []},
    DESIRED | {"filter_subjects": WITHOUT_LANES},
    MOVED | {"filter_subjects": WITHOUT_LANES},
]
SOURCES: Final = [
    (None, None),
    *itertools.product([FIXED_DELIVERY, "random"], [False, True]),
]
STATES: Final = [
    WorkSource(consumer, listens_at, is_bound, has_lanes=has_lanes)
    for consumer, (listens_at, has_lanes), is_bound in itertools.product(
        CONSUMERS, SOURCES, [False, True]
    )
    if consumer is not None or not is_bound
]


def after(found: WorkSource, step: Step, *, by_operator: bool) -> WorkSource:
    """What a server has after a step, as it was seen to do."""
    adapted = found.adapt(replace(TOPOLOGY, by_operator=by_operator))
    desired = adapted.to_work() or {}
    consumer, listens_at, has_lanes = found.consumer or desired, found.listens_at, found.has_lanes
    match step:
        case Step.CREATE:
            consumer = desired
        case Step.DELETE:
            return WorkSource(None, listens_at, has_lanes=has_lanes)
        case Step.AMEND:
            consumer = consumer | {"filter_subjects": desired["filter_subjects"]}
        case Step.DETACH:
            listens_at, has_lanes = None, None
        case Step.MOVE:
            consumer = consumer | {"deliver_subject": "moved"}
        case Step.ATTACH:
            listens_at, has_lanes = consumer["deliver_subject"], adapted.with_lanes
    is_bound = listens_at == consumer["deliver_subject"]
    return WorkSource(consumer, listens_at, is_bound, has_lanes=has_lanes)


@pytest.mark.parametrize("by_operator", [False, True])
@pytest.mark.parametrize("found", STATES, ids=range(len(STATES)))
def test_from_every_state_a_few_steps_lead_to_the_end(found: WorkSource, by_operator: bool) -> None:
    began = found
    for _ in range(7):
        step = next_step(found, DESIRED, by_operator=by_operator)
        if step is None:
            break
        found = after(found, step, by_operator=by_operator)
    assert step is None
    assert found.listens_at == found.delivers_to
    if by_operator:
        assert found.is_bound
        assert found.delivers_to != FIXED_DELIVERY
        assert not found.lacks_lanes
    elif began.consumer is not None and found.consumer is not None:
        filters = began.consumer["filter_subjects"]
        assert found.consumer["filter_subjects"] == filters, "older versions can start as before"


@pytest.mark.parametrize("found", STATES, ids=range(len(STATES)))
def test_the_filter_is_extended_only_while_there_is_no_source(found: WorkSource) -> None:
    """A source that gets the event of a lane without its transform stores it under no queue."""
    is_former = found.consumer is not None and found.consumer["filter_subjects"] == WITHOUT_LANES
    if is_former and next_step(found, DESIRED, by_operator=True) is Step.AMEND:
        assert found.listens_at is None
