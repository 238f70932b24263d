"""A job leaves its key however it ends, waiting or running."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.given import OF_KIND
from tests.keys.work_lab import (
    consumer_info,
    key_view,
    producer,
    started_order,
    until_out,
    worker,
    yard_process,
)
from tests.support.example_service import Report, Task
from tests.support.facts import DEADLINE, until
from tests.support.lab import Probe, probe, until_state
from trellis_jobs import JobCancelled, JobDead, JobExpired, JobFailed, JobRef
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.events import AttemptEvent, EventKind, Retried
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import replace


async def test_a_running_job_that_is_cancelled_leaves_its_key_to_the_next(
    server: EmbeddedServer,
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        worker(server.url, "calm") as working,
    ):
        running = await jobs.calm.create(Task(do="wait"))
        await working.until_running(running)
        following = await jobs.calm.create(Task())
        await until_out(raw, jobs.calm, 2)
        await running.cancel()
        await following.wait(timeout=10)
        assert working.cancelled == [running.id]
        await key_view(raw, jobs.calm).until_empty()
        await raw.until_empty()


async def test_a_waiting_job_that_is_cancelled_never_starts_and_is_gone_from_its_key_at_once(
    server: EmbeddedServer,
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        worker(server.url, "calm") as working,
    ):
        key = key_view(raw, jobs.calm)
        running = await jobs.calm.create(Task(do="wait"))
        await working.until_running(running)
        waiting = [await jobs.calm.create(Task()) for _ in range(3)]
        await until_out(raw, jobs.calm, 4)
        await waiting[1].cancel()
        await until_out(raw, jobs.calm, 3)
        queued = (await key.read()).queued
        assert [entry.job_id for entry in queued] == [waiting[0].id, waiting[2].id]
        working.go.set()
        await waiting[2].wait(timeout=10)
        with pytest.raises(JobCancelled):
            await waiting[1].wait(timeout=10)
        await key.until_empty()
        assert await raw.kinds(waiting[1]) == ["created", "cancelled"]


async def test_a_cancelled_job_that_no_worker_has_received_is_removed_when_one_does(
    server: EmbeddedServer,
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        key = key_view(raw, jobs.calm)
        ref = await jobs.calm.create(Task())
        entry = (await key.read()).queued
        await ref.cancel()
        # As if the process had died between the event and the key.
        await key.change(lambda state: replace(state, queued=entry))
        async with worker(server.url, "calm") as working:
            await raw.until_empty()
            await key.until_empty()
            assert working.begun == []


async def test_a_waiting_job_expires_at_its_deadline_not_when_its_turn_comes(
    server: EmbeddedServer,
) -> None:
    """The worker does not poll, so only the deadline can have woken it."""
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        worker(server.url, "serene") as working,
    ):
        key = key_view(raw, jobs.serene)
        running = await jobs.serene.create(Task(do="wait"))
        await working.until_running(running)
        waiting = await jobs.serene.create(Task(), deadline=0.5)
        with pytest.raises(JobExpired):
            await waiting.wait(timeout=DEADLINE)
        await until_out(raw, jobs.serene, 1)
        assert (await key.read()).queued == ()
        assert (await running.get()).state is JobState.ACTIVE
        assert await raw.kinds(waiting) == ["created", "expired"]
        working.go.set()


VERDICTS = [EventKind.CANCELLED, EventKind.EXPIRED, EventKind.SKIPPED, EventKind.DEAD]


@pytest.mark.parametrize("verdict", VERDICTS)
async def test_a_waiting_job_that_is_ended_never_starts_and_leaves_its_key(
    server: EmbeddedServer, verdict: EventKind
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        worker(server.url, "calm") as working,
    ):
        running = await jobs.calm.create(Task(do="wait"))
        await working.until_running(running)
        waiting = await jobs.calm.create(Task())
        await until_out(raw, jobs.calm, 2)
        await end_by_hand(raw, waiting, verdict)
        following = await jobs.calm.create(Task())
        working.go.set()
        await following.wait(timeout=10)
        await raw.until_empty()
        await key_view(raw, jobs.calm).until_empty()
        assert await raw.kinds(waiting) == ["created", verdict]


@pytest.mark.parametrize("verdict", [EventKind.CANCELLED, EventKind.EXPIRED, EventKind.DEAD])
async def test_a_running_job_that_is_ended_is_stopped_and_leaves_its_key(
    server: EmbeddedServer, verdict: EventKind
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        worker(server.url, "calm") as working,
    ):
        running = await jobs.calm.create(Task(do="wait"))
        await working.until_running(running)
        following = await jobs.calm.create(Task())
        await end_by_hand(raw, running, verdict)
        await following.wait(timeout=10)
        assert working.cancelled == [running.id]
        await raw.until_empty()
        await key_view(raw, jobs.calm).until_empty()
        assert await raw.kinds(running) == ["created", "started", verdict]


ENDS = [
    pytest.param("mortal", "always fail", JobDead, id="dead"),
    pytest.param("calm", "give up", JobFailed, id="failed"),
]


@pytest.mark.parametrize(("name", "do", "end"), ENDS)
async def test_a_job_that_fails_for_good_leaves_its_key_to_the_next(
    server: EmbeddedServer, name: str, do: str, end: type[Exception]
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        worker(server.url, name),
    ):
        queue = getattr(jobs, name)
        bad = await queue.create(Task(do=do))
        good = await queue.create(Task())
        with pytest.raises(end):
            await bad.wait(timeout=10)
        await good.wait(timeout=10)
        await key_view(raw, queue).until_empty()
        await raw.until_empty()


async def test_a_last_try_lost_with_its_worker_leaves_its_key_to_the_next(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        with yard_process(server.url, tmp_path, "mortal") as victim:
            await victim.until_ready()
            bad = await jobs.mortal.create(Task(do="wait"))
            await victim.until_running(bad)
            victim.kill()
        good = await jobs.mortal.create(Task())
        async with worker(server.url, "mortal"):
            with pytest.raises(JobDead):
                await bad.wait(timeout=10)
            await good.wait(timeout=10)
            await raw.until_empty()
        state = await key_view(raw, jobs.mortal).read()
        assert (state.active, state.queued) == ((), ())


async def test_a_job_that_waits_for_its_next_try_does_not_hold_up_its_key(
    server: EmbeddedServer,
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        worker(server.url, "calm"),
    ):
        key = key_view(raw, jobs.calm)
        later = await jobs.calm.create(Task(do="later", seconds=60))
        await until_state(later, JobState.RETRY)
        others = [await jobs.calm.create(Task()) for _ in range(3)]
        for ref in others:
            await ref.wait(timeout=10)
        assert (await later.get()).state is JobState.RETRY
        await key.until_queued(1)
        assert [entry.job_id for entry in (await key.read()).queued] == [later.id]
        await later.cancel()
        await key.until_empty()


async def test_a_job_that_is_tried_again_keeps_its_place_before_younger_ones(
    server: EmbeddedServer,
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        worker(server.url, "calm") as working,
    ):
        older = await jobs.calm.create(Task(do="wait, then later", seconds=1))
        await working.until_running(older)
        running = await jobs.calm.create(Task(do="wait"))
        younger = await jobs.calm.create(Task())
        await until_out(raw, jobs.calm, 3)
        working.let_go(older)
        await working.until_running(running)

        async def came_again() -> bool:
            return int((await consumer_info(raw, jobs.calm))["num_redelivered"]) == 1

        await until(came_again, "the older job is due, and waits")
        working.go.set()
        await younger.wait(timeout=10)
        assert (await older.wait(timeout=10)).tries == 2
        assert await started_order(raw, [older, running, younger]) == [
            older.id, running.id, older.id, younger.id
        ]  # fmt: skip
        await key_view(raw, jobs.calm).until_empty()


async def test_a_job_that_an_operator_retries_runs_again_though_it_is_not_queued(
    server: EmbeddedServer,
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        worker(server.url, "mortal") as working,
    ):
        key = key_view(raw, jobs.mortal)
        ref = await jobs.mortal.create(Task(do="always fail"))
        with pytest.raises(JobDead):
            await ref.wait(timeout=10)
        await raw.until_empty()
        holding = await jobs.mortal.create(Task(do="wait"))
        await working.until_running(holding)
        await retry_by_hand(raw, ref)
        await until_out(raw, jobs.mortal, 2)
        assert (await key.read()).queued == ()
        working.go.set()
        assert (await ref.wait(timeout=10)).tries == 1
        await key.until_empty()
        assert await started_order(raw, [ref, holding]) == [ref.id, holding.id, ref.id]


async def end_by_hand(raw: Probe, ref: JobRef[Report], verdict: EventKind) -> None:
    """As an operator, or the admin runtime, does."""
    latest = await raw.events.latest(ref.address)
    assert latest is not None
    ending = replace(OF_KIND[verdict], job=ref.address, context=latest.context)
    if isinstance(ending, AttemptEvent):
        ending = replace(ending, attempt=None)
    assert isinstance(await raw.events.append(latest.head, ending), Head)


async def retry_by_hand(raw: Probe, ref: JobRef[Report]) -> None:
    latest = await raw.events.latest(ref.address)
    assert latest is not None
    retried = Retried(
        job=ref.address,
        context=latest.context,
        at=datetime.now(UTC),
        tries=0,
        payload=Task().model_dump(),
        max_tries=1,
        by="an operator",
    )
    assert isinstance(await raw.events.try_append(latest.head, retried), Head)
