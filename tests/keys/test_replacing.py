"""A job is replaced by a newer one while other processes start, create or replace it too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.keys.keyed_lab import (
    EVENT_ANSWERED,
    KEY_WRITE_ANSWERED,
    Held,
    Key,
    helpdesk,
    look_at,
    producer,
    reserved,
    worker,
)
from tests.support.example_service import Task
from tests.support.fault_proxy import fault_proxy
from tests.support.lab import Probe, probe, until_state
from tests.support.servers import NEWEST, start_version
from trellis_jobs import Accepted, Rejected, Replaced
from trellis_jobs.contract.topology import LOG, Topology
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import api
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.states import JobState

_OPEN_BATCHES = 50


@pytest.fixture
def old_server() -> Iterator[EmbeddedServer]:
    """It knows guarded appends, but no atomic batches."""
    with start_version("2.11.11") as running:
        yield running


async def test_a_job_that_starts_just_then_is_left_alone_and_the_next_one_makes_way(
    server: EmbeddedServer,
) -> None:
    async with (
        helpdesk(server.url) as (others, raw),
        fault_proxy(server.url) as way,
        producer(way.url) as jobs,
    ):
        first = await others.replace.create(Task(do="wait"))
        second = await others.replace.create(Task())
        held = Held(way, KEY_WRITE_ANSWERED, look_at(first))
        submitting = asyncio.create_task(jobs.replace.submit(Task()))
        await held.until_still()
        async with worker(server.url, "replace") as bench:
            await bench.until_running(first)
            way.thaw()
            outcome = await submitting
            assert isinstance(outcome, Replaced)
            assert outcome.replaced_job_id == second.id
            key = Key(raw, "replace")
            assert (await key.active(), await key.queued()) == ([first.id], [outcome.ref.id])
            bench.go.set()
            assert (await outcome.ref.wait(timeout=10)).tries == 1
            await key.until_free()
        assert await raw.kinds(first) == ["created", "started", "completed"]
        assert await raw.kinds(second) == ["created", "skipped"]
        assert await raw.kinds(outcome.ref) == ["created", "started", "completed"]


async def test_when_the_only_job_that_waits_starts_just_then_the_new_one_is_turned_away(
    server: EmbeddedServer,
) -> None:
    async with (
        helpdesk(server.url) as (others, raw),
        fault_proxy(server.url) as way,
        producer(way.url) as jobs,
    ):
        first = await others.newest.create(Task(do="wait"))
        held = Held(way, KEY_WRITE_ANSWERED, look_at(first))
        submitting = asyncio.create_task(jobs.newest.submit(Task(), job_id="turned-away"))
        await held.until_still()
        async with worker(server.url, "newest") as bench:
            await bench.until_running(first)
            way.thaw()
            outcome = await submitting
            assert isinstance(outcome, Rejected)
            assert (outcome.reason, outcome.active, outcome.queued) == ("active-limit", 1, 0)
            assert await Key(raw, "newest").queued() == []
        assert await raw.kinds(first) == ["created", "started", "completed"]
        assert await raw.kinds(others.newest.ref("turned-away")) == []


async def test_when_the_job_that_was_to_make_way_is_cancelled_just_then_it_ends_only_once(
    server: EmbeddedServer,
) -> None:
    async with (
        helpdesk(server.url) as (others, raw),
        fault_proxy(server.url) as way,
        producer(way.url) as jobs,
    ):
        first = await others.newest.create(Task())
        held = Held(way, KEY_WRITE_ANSWERED, look_at(first))
        submitting = asyncio.create_task(jobs.newest.submit(Task()))
        await held.until_still()
        await first.cancel()
        way.thaw()
        outcome = await submitting
        assert isinstance(outcome, Accepted)
        assert await raw.kinds(first) == ["created", "cancelled"]
        assert await raw.kinds(outcome.ref) == ["created"]
        assert await Key(raw, "newest").queued() == [outcome.ref.id]


async def test_a_job_on_its_way_into_the_log_is_waited_for_and_then_makes_way(
    server: EmbeddedServer,
) -> None:
    async with (
        helpdesk(server.url) as (others, raw),
        fault_proxy(server.url) as way,
        producer(way.url) as jobs,
    ):
        key, held = Key(raw, "newest"), Held(way, KEY_WRITE_ANSWERED)
        slow = asyncio.create_task(jobs.newest.submit(Task(), job_id="slow"))
        await held.until_still()
        quick = asyncio.create_task(others.newest.submit(Task(), job_id="quick"))
        await key.until_queued("quick")
        way.thaw()
        assert isinstance(await slow, Accepted)
        outcome = await quick
        assert isinstance(outcome, Replaced)
        assert outcome.replaced_job_id == "slow"
        assert await raw.kinds(others.newest.ref("slow")) == ["created", "skipped"]
        assert await raw.kinds(outcome.ref) == ["created"]
        assert await key.queued() == ["quick"]


async def test_a_reservation_without_a_job_is_replaced_though_there_is_no_job_to_skip(
    server: EmbeddedServer,
) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        key = Key(raw, "newest")
        await key.put_waiting(reserved("its-producer-died"))
        outcome = await jobs.newest.submit(Task())
        assert isinstance(outcome, Accepted)
        assert await key.queued() == [outcome.ref.id]
        assert await raw.kinds(jobs.newest.ref("its-producer-died")) == []


async def test_a_job_that_waits_for_its_next_try_can_make_way(server: EmbeddedServer) -> None:
    async with worker(server.url, "newest") as bench, probe(server.url) as raw:
        key = Key(raw, "newest")
        first = await bench.jobs.newest.create(Task(do="later", seconds=60))
        await until_state(first, JobState.RETRY)
        await key.until_queued(first.id)
        outcome = await bench.jobs.newest.submit(Task())
        assert isinstance(outcome, Replaced)
        assert outcome.replaced_job_id == first.id
        assert (await outcome.ref.wait(timeout=10)).tries == 1
        assert await raw.kinds(first) == ["created", "started", "retry", "skipped"]


async def test_many_that_replace_each_other_end_each_other_once_and_leave_one(
    server: EmbeddedServer,
) -> None:
    async with (
        helpdesk(server.url) as (jobs, raw),
        producer(server.url) as more,
        producer(server.url) as others,
    ):
        outcomes = await asyncio.gather(
            *(each.newest.submit(Task()) for _ in range(10) for each in (jobs, more, others))
        )
        refs = [each.ref for each in outcomes if isinstance(each, Accepted | Replaced)]
        gone = [each.replaced_job_id for each in outcomes if isinstance(each, Replaced)]
        assert len(refs) == 30
        assert len(gone) == len(set(gone))
        histories = {ref.id: await raw.kinds(ref) for ref in refs}
        skipped = [job_id for job_id, kinds in histories.items() if kinds == ["created", "skipped"]]
        assert sorted(skipped) == sorted(gone)
        assert all(
            kinds == ["created"] for job_id, kinds in histories.items() if job_id not in gone
        )
        (left,) = await Key(raw, "newest").queued()
        assert left not in gone


@pytest.mark.parametrize("kind", ["old_server", "server"])
async def test_without_batches_the_new_job_is_there_before_the_old_one_goes(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """The server does not know them, or the stream that it was upgraded with has them off."""
    async with helpdesk(request.getfixturevalue(kind).url) as (jobs, raw):
        if raw.features.atomic_batches:
            config = Topology(raw.features).log() | {"allow_atomic": False}
            await api.request(raw.connection, f"STREAM.UPDATE.{LOG}", config)
        old = await jobs.newest.create(Task())
        outcome = await jobs.newest.submit(Task())
        assert isinstance(outcome, Replaced)
        assert outcome.replaced_job_id == old.id
        (created,) = await raw.events.history(outcome.ref.address)
        (_, skipped) = await raw.events.history(old.address)
        assert (created.sequence, skipped.sequence, skipped.event.kind) == (2, 3, "skipped")
        assert skipped.event.context != created.event.context
        assert await Key(raw, "newest").queued() == [outcome.ref.id]


async def test_without_batches_a_job_that_starts_just_then_runs_and_so_does_the_new_one(
    old_server: EmbeddedServer,
) -> None:
    async with (
        helpdesk(old_server.url) as (others, raw),
        fault_proxy(old_server.url) as way,
        producer(way.url) as jobs,
    ):
        first = await others.newest.create(Task(do="wait"))
        held = Held(way, KEY_WRITE_ANSWERED, look_at(first))
        submitting = asyncio.create_task(jobs.newest.submit(Task()))
        await held.until_still()
        async with worker(old_server.url, "newest") as bench:
            await bench.until_running(first)
            way.thaw()
            outcome = await submitting
            assert isinstance(outcome, Accepted)
            bench.go.set()
            assert (await outcome.ref.wait(timeout=10)).tries == 1
        assert await raw.kinds(first) == ["created", "started", "completed"]


async def test_without_batches_a_producer_that_dies_in_between_loses_neither_job(
    old_server: EmbeddedServer,
) -> None:
    async with (
        worker(old_server.url, "replace") as bench,
        probe(old_server.url) as raw,
        fault_proxy(old_server.url) as way,
        producer(way.url) as jobs,
    ):
        running = await bench.jobs.replace.create(Task(do="wait"))
        await bench.until_running(running)
        old = await bench.jobs.replace.create(Task())
        held = Held(way, EVENT_ANSWERED)
        dying = asyncio.create_task(jobs.replace.submit(Task(), job_id="new"))
        await held.until_still()
        dying.cancel()
        way.refuse()
        bench.go.set()
        for job_id in (old.id, "new"):
            assert (await bench.jobs.replace.ref(job_id).wait(timeout=10)).tries == 1
        await Key(raw, "replace").until_free()


@pytest.mark.parametrize("version", ["2.12.8", "2.14.6", NEWEST])
async def test_batches_that_another_client_leaves_open_stop_no_producer(version: str) -> None:
    """A stream takes 50 open batches: one client can hold all of them. The server then answers
    10210 (2.12: 10176), and before, a job that replaces another was not created in 30 s.
    """
    with start_version(version) as server:
        async with helpdesk(server.url) as (jobs, raw):
            first = await jobs.newest.create(Task())
            await _hold_batches_open(raw)
            async with asyncio.timeout(8):  # the server closes open batches after 10 s
                outcome = await jobs.newest.submit(Task())
            assert isinstance(outcome, Replaced)
            assert outcome.replaced_job_id == first.id
            await until_state(first, JobState.SKIPPED)
            assert await raw.kinds(outcome.ref) == [EventKind.CREATED]


async def _hold_batches_open(raw: Probe) -> None:
    for n in range(_OPEN_BATCHES):
        subject = f"trellis.jobs.hostile.flood.{n}.created"
        headers = {"Nats-Batch-Id": f"open-{n}", "Nats-Batch-Sequence": "1"}
        answer = await raw.connection.request(subject, b"{}", headers=headers)
        assert answer.data == b"", answer.data
