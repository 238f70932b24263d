"""A worker that lost its slot cannot finish its job. The new holder of the key can."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.keys.work_lab import (
    KeyView,
    YardProcess,
    key_view,
    lease_of,
    producer,
    until_kind,
    until_out,
    without_slots,
    worker,
    yard_process,
)
from tests.support.example_service import Report, Task, TaskWorker
from tests.support.facts import until
from tests.support.fault_proxy import Then, fault_proxy
from tests.support.lab import Probe, probe, until_state
from trellis_jobs import JobRef, Queue
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.events import EventKind, Stale
from trellis_jobs.model.keys.state import KeyState
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import replace

NOTED = EventKind.STALE_COMPLETION_IGNORED


@contextmanager
def frozen(process: YardProcess) -> Iterator[None]:
    process.send(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send(signal.SIGCONT)


@dataclass
class Standoff:
    """A process holds the key. In another, the next job of the key waits, and all slots are in use.

    So no worker can take the first job over when its message is delivered again: the only way on is
    that the lease of its slot ends.
    """

    holder: YardProcess
    other: TaskWorker
    held: JobRef[Report]
    following: JobRef[Report]
    seated: JobRef[Report]


@asynccontextmanager
async def standoff(
    url: str, folder: Path, queue: Queue[Task, Report], raw: Probe
) -> AsyncIterator[Standoff]:
    name = queue.type.name
    with yard_process(url, folder, name, concurrency=1) as holder:
        await holder.until_ready()
        held = await queue.create(Task(do="wait"))
        await holder.until_running(held)
        async with worker(url, name, concurrency=1) as other:
            following = await queue.create(Task())
            await until_out(raw, queue, 2)
            seated = await queue.create(Task(key="another", do="wait"))
            await other.until_running(seated)
            yield Standoff(holder, other, held, following, seated)


@pytest.mark.parametrize("is_done", [True, False], ids=["its handler is done", "it goes on"])
async def test_a_frozen_worker_is_replaced_when_its_lease_ends_and_cannot_finish(
    server: EmbeddedServer, tmp_path: Path, is_done: bool
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        key = key_view(raw, jobs.brisk)
        async with standoff(server.url, tmp_path, jobs.brisk, raw) as two:
            with frozen(two.holder):
                stale = await until_state(two.held, JobState.STALE)
                two.other.let_go(two.seated)
                assert (await two.following.wait(timeout=20)).tries == 1
                if is_done:
                    two.holder.let_go()
            await until_kind(raw, two.held, NOTED)
            assert is_done or two.holder.cancelled == [two.held.id]
            await raw.until_empty()
        assert (await key.until_empty()).stale_takeovers == 1
        history = await raw.events.history(two.held.address)
        assert [entry.event.kind for entry in history] == ["created", "started", "stale", NOTED]
        stale_event = history[2].event
        assert isinstance(stale_event, Stale)
        assert stale_event.context == history[0].event.context
        assert stale_event.concurrency is not None
        assert stale_event.concurrency.key == "yard:acme"
        assert "did not renew its slot of key 'yard:acme'" in (stale.why or "")
        assert (await two.held.get()).state is JobState.STALE
        assert await raw.kinds(two.following) == ["created", "started", "completed"]


async def test_a_frozen_worker_whose_job_is_delivered_again_loses_it_but_not_to_stale(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """The same job takes its slot back elsewhere, before the lease ends."""
    async with producer(server.url) as jobs, probe(server.url) as raw:
        key = key_view(raw, jobs.brisk)
        with yard_process(server.url, tmp_path, "brisk", concurrency=1) as holder:
            await holder.until_ready()
            ref = await jobs.brisk.create(Task(do="wait"))
            await holder.until_running(ref)
            with frozen(holder):
                async with worker(server.url, "brisk") as other:
                    await other.until_running(ref)
                    holder.let_go()
                    holder.send(signal.SIGCONT)
                    await until_kind(raw, ref, NOTED)
                    assert (await ref.get()).state is JobState.ACTIVE
                    assert len((await key.read()).active) == 1
                    other.go.set()
                    assert (await ref.wait(timeout=20)).tries == 2
                    await raw.until_empty()
        kinds = await raw.kinds(ref)
        assert [kind for kind in kinds if kind != NOTED] == [
            "created", "started", "retry", "started", "completed"
        ]  # fmt: skip
        assert (await key.until_empty()).stale_takeovers == 0


async def test_where_stale_jobs_block_a_frozen_worker_keeps_its_key(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        key = key_view(raw, jobs.blocked)
        async with standoff(server.url, tmp_path, jobs.blocked, raw) as two:
            with frozen(two.holder):
                held = (await key.read()).active
                await until_lease_is_long_over(key, jobs.blocked)
                assert (await key.read()).active == held
                assert (await two.held.get()).state is JobState.ACTIVE
                assert two.other.begun == [two.seated.id]
            two.holder.let_go()
            two.other.go.set()
            await two.following.wait(timeout=20)
            await two.held.wait(timeout=20)
            await raw.until_empty()
        assert (await key.until_empty()).stale_takeovers == 0
        assert EventKind.STALE not in await raw.kinds(two.held)


async def until_lease_is_long_over(key: KeyView, queue: Queue[Task, Report]) -> None:
    [held] = (await key.read()).active
    end = held.heartbeat_at + 2 * lease_of(queue).heartbeat_ttl
    await until(lambda: datetime.now(UTC) > end, "the lease is long over")


def taken_by_another(state: KeyState) -> KeyState:
    [held] = state.active
    return replace(state, active=(replace(held, job_id="of-another-runtime", token="theirs"),))  # noqa: S106


@pytest.mark.parametrize(
    "strangers_write",
    [
        pytest.param(without_slots, id="deleted"),
        pytest.param(taken_by_another, id="given to another"),
    ],
)
async def test_a_slot_that_is_gone_from_the_bucket_stops_its_handler(
    server: EmbeddedServer, strangers_write: Callable[[KeyState], KeyState]
) -> None:
    """The log has the outcome before the slot is released, so the next job of the key finds it."""
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        worker(server.url, "brisk") as working,
    ):
        key = key_view(raw, jobs.brisk)
        ref = await jobs.brisk.create(Task(do="wait"))
        active = await working.until_running(ref)
        await key.change(strangers_write)
        await until(lambda: working.cancelled == [ref.id], "its handler is cancelled")
        assert active.cancelled
        assert active.key_lease is not None
        assert not active.key_lease.is_held
        await until_kind(raw, ref, EventKind.RETRY)
        working.go.set()
        assert (await ref.wait(timeout=20)).tries == 2
        await key.until_empty()
        kinds = await raw.kinds(ref)
        [error] = (await ref.get()).errors
    assert kinds == ["created", "started", "retry", "started", "completed"]
    assert error.type == "lease_over"


async def test_a_slot_that_cannot_be_renewed_stops_its_handler_before_others_may_take_it(
    server: EmbeddedServer,
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        fault_proxy(server.url) as way,
        worker(way.url, "brisk") as working,
    ):
        key, key_policy = key_view(raw, jobs.brisk), lease_of(jobs.brisk)
        ref = await jobs.brisk.create(Task(do="wait"))
        await working.until_running(ref)
        way.when_client_sends(rb"HPUB \$KV\.", lambda: Then.SWALLOW, uses=1000)
        await until(lambda: working.cancelled == [ref.id], "its handler is cancelled")
        [held] = (await key.read()).active
        silent = datetime.now(UTC) - held.heartbeat_at
        assert (
            key_policy.heartbeat_ttl - key_policy.heartbeat_interval
            <= silent
            < 5 * key_policy.heartbeat_ttl
        )
        way.to_server.clear()
        await until_kind(raw, ref, EventKind.RETRY)
        working.go.set()
        assert (await ref.wait(timeout=30)).tries == 2
        await raw.until_empty()
        assert (await key.until_empty()).stale_takeovers == 0
        assert EventKind.STALE not in await raw.kinds(ref)
