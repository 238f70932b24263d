"""What a crash leaves in a key is removed, and so are cancelled jobs: no key stays blocked."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import cast

import pytest

from tests import given
from tests.keys.keyed_lab import Key, helpdesk, history, reserved, worker
from tests.support.example_service import Report, Task, TaskJobs
from tests.support.facts import until
from tests.support.fault_proxy import fault_proxy
from tests.support.lab import probe, until_state
from trellis_jobs import Accepted, JobIsOver, JobRef, KeyBusy, QueueFull
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import monotonic
from trellis_jobs.model.states import ENQUEUED, OVER, JobState
from trellis_jobs.model.values import replace
from trellis_jobs.worker.running_job import RunningJob


@pytest.mark.parametrize("left_in", ["queued", "active"])
async def test_a_job_that_is_over_blocks_no_other_however_it_ended(
    server: EmbeddedServer, left_in: str
) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        for ended in sorted(OVER):
            key = Key(raw, "strict", ended.value)
            await leave_behind(key, ended, left_in)
            ref = await jobs.strict.create(Task(key=key.value))
            assert (await key.queued(), await key.active()) == ([ref.id], []), ended


@pytest.mark.parametrize("left_in", ["queued", "active"])
async def test_a_job_that_is_not_over_keeps_its_place_wherever_it_is(
    server: EmbeddedServer, left_in: str
) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        for state in sorted(ENQUEUED):
            key = Key(raw, "strict", state.value)
            await leave_behind(key, state, left_in)
            before = await key.stored()
            with pytest.raises(KeyBusy) as refused:
                await jobs.strict.create(Task(key=key.value))
            assert refused.value.existing_job_id == f"left-{state}"
            assert await key.stored() == before, state


@pytest.mark.parametrize(("seconds_ago", "is_kept"), [(10, True), (90, False)])
async def test_a_delayed_job_keeps_its_place_only_while_it_may_be_just_released(
    server: EmbeddedServer, seconds_ago: int, is_kept: bool
) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        key = Key(raw, "strict", f"delayed-{seconds_ago}")
        await key.tell(*history(key.job("later"), *given.LEADING_TO[JobState.SCHEDULED]))
        await key.put_waiting(reserved("later", seconds_ago=seconds_ago))
        with pytest.raises(KeyBusy) if is_kept else nullcontext():
            await jobs.strict.create(Task(key=key.value))
        assert ("later" in await key.queued()) == is_kept


async def leave_behind(key: Key, state: JobState, place: str) -> None:
    job_id = f"left-{state}"
    await key.tell(*history(key.job(job_id), *given.LEADING_TO[state]))
    if place == "queued":
        await key.put_waiting(reserved(job_id, seconds_ago=90))
    else:
        await key.put(replace(key.empty, active=(given.slot(job_id),)))


async def test_more_leftovers_than_one_pass_checks_are_gone_after_a_few_passes(
    server: EmbeddedServer,
) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        key = Key(raw, "patient")
        await key.put_waiting(*(reserved(f"never-{n}", seconds_ago=100 - n) for n in range(30)))
        for _ in range(2):
            accepted = await until(partial(admitted, jobs), "there is room")
            assert (await key.queued())[-1] == accepted.ref.id
        with pytest.raises(QueueFull):
            await jobs.patient.create(Task())


async def admitted(jobs: TaskJobs) -> Accepted[JobRef[Report]] | None:
    outcome = await jobs.patient.submit(Task())
    return outcome if isinstance(outcome, Accepted) else None


async def test_a_slot_whose_worker_is_gone_opens_to_producers_that_keep_trying(
    server: EmbeddedServer,
) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        key, now = Key(raw, "brief"), datetime.now(UTC)
        await leave_behind(key, JobState.ACTIVE, "active")
        lost = given.slot(f"left-{JobState.ACTIVE}", heartbeat_at=now, expires_at=now)
        await key.put(replace(key.empty, active=(lost,)))
        with pytest.raises(KeyBusy):
            await jobs.brief.create(Task())

        async def let_in() -> bool:
            return isinstance(await jobs.brief.submit(Task()), Accepted)

        await until(let_in, "the lease is over")
        old = jobs.brief.ref(lost.job_id)
        assert await raw.kinds(old) == ["created", "started", "stale"]
        assert (await old.events())[-1].context == given.CONTEXT
        assert (await key.state()).stale_takeovers == 1


async def test_cancelling_a_job_that_waits_frees_its_place_at_once(server: EmbeddedServer) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        key = Key(raw, "patient")
        first, second = await jobs.patient.create(Task()), await jobs.patient.create(Task())
        await first.cancel("not needed")
        assert await key.queued() == [second.id]
        third = await jobs.patient.create(Task())
        assert await key.queued() == [second.id, third.id]
        await first.cancel("twice is no error")
        assert await raw.kinds(first) == ["created", "cancelled"]


async def test_cancelling_by_id_alone_finds_the_key(server: EmbeddedServer) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        ref = await jobs.strict.create(Task(key="globex"))
        await jobs.strict.ref(ref.id).cancel()
        assert await Key(raw, "strict", "globex").queued() == []


async def test_cancelling_a_job_that_runs_leaves_its_slot_to_its_worker(
    server: EmbeddedServer,
) -> None:
    async with worker(server.url, "patient") as bench, probe(server.url) as raw:
        key = Key(raw, "patient")
        ref = await bench.jobs.patient.create(Task(do="linger"))
        await bench.until_running(ref)
        await ref.cancel()
        await until(lambda: ref.id in bench.lingering, "the handler was cancelled, and cleans up")
        assert (await key.active(), await key.queued()) == ([ref.id], [])
        bench.go.set()
        await key.until_free()


async def test_a_handler_that_cleans_up_for_too_long_puts_back_no_message_of_another_attempt(
    server: EmbeddedServer,
) -> None:
    async with fault_proxy(server.url) as way, worker(way.url, "patient") as bench:
        answers: list[bytes] = []
        async with probe(server.url) as raw:
            ref = await bench.jobs.patient.create(Task(do="linger"))
            active = await bench.until_running(ref)
            way.on_answers(lambda _, body: answers.append(body), uses=1000)
            key = Key(raw, "patient")
            await key.put(key.empty)
            await until(
                lambda: ref.id in bench.lingering, "the handler was cancelled, and cleans up"
            )
            lease = cast("RunningJob", active._backend).lease
            await until(lambda: lease.has_lapsed(monotonic()), "the delivery may be another's")
            bench.go.set()
            await until(lambda: bench.begun == [ref.id, ref.id], "it runs again")
            assert await raw.kinds(ref) == ["created", "started", "retry", "started"]
        assert not [answer for answer in answers if answer.startswith(b"-NAK")]


async def test_a_waiting_job_that_is_cancelled_never_runs_and_the_next_one_does(
    server: EmbeddedServer,
) -> None:
    async with worker(server.url, "roomy") as bench, probe(server.url) as raw:
        running = await bench.jobs.roomy.create(Task(do="wait"))
        await bench.until_running(running)
        cancelled, last = [await bench.jobs.roomy.create(Task()) for _ in range(2)]
        await cancelled.cancel()
        bench.go.set()
        assert (await last.wait(timeout=10)).tries == 1
        assert bench.begun == [running.id, last.id]
        await Key(raw, "roomy").until_free()
        await raw.until_empty()


async def test_a_job_that_is_over_cannot_be_cancelled_and_its_key_is_left_alone(
    server: EmbeddedServer,
) -> None:
    async with worker(server.url, "strict") as bench, probe(server.url) as raw:
        ref = await bench.jobs.strict.create(Task())
        await until_state(ref, JobState.COMPLETED)
        key = Key(raw, "strict")
        await key.until_free()
        before = await key.stored()
        with pytest.raises(JobIsOver):
            await ref.cancel()
        assert await key.stored() == before


async def test_a_cancel_holds_though_the_key_cannot_be_read(server: EmbeddedServer) -> None:
    async with helpdesk(server.url) as (jobs, raw):
        key = Key(raw, "strict")
        ref = await jobs.strict.create(Task())
        await key.put(b"not a state")
        await ref.cancel()
        assert await raw.kinds(ref) == ["created", "cancelled"]
        assert await key.stored() == b"not a state"
