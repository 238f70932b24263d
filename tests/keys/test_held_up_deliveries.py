"""Delayed deliveries and outages make no job run twice or end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.admin.upkeep_lab import purge
from tests.given import slot
from tests.keys.work_lab import (
    YARD,
    KeyView,
    key_view,
    lease_of,
    producer,
    seconds,
    until_out,
    worker,
)
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import Probe, probe, until_state
from trellis_jobs.contract.topology import WORK
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import monotonic, utc_now
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.work.delivery import Delivery
from trellis_jobs.jetstream.work.messages import WorkMessages
from trellis_jobs.jetstream.work.puller import WorkPuller
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.model.attempts import Attempt
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import replace


async def consumer(raw: Probe, queue: str) -> dict[str, Any]:
    return await api.request(raw.connection, f"CONSUMER.INFO.JOBS_WORK.yard-{queue}")


async def held_up(raw: Probe) -> Delivery:
    """The first delivery of a job, in the hands of a worker that does nothing with it."""
    taken: list[Delivery] = []
    queue = WorkPuller(
        raw.connection,
        "yard",
        YARD.contract.queues["blocked"],
        lambda d: taken.append(d) if d else None,
        monotonic,
    )
    await queue.open()
    await queue.subscribe()
    queue.request(1)
    await until(lambda: taken, "a delivery comes")
    await queue.unsubscribe()
    return taken[0]


@asynccontextmanager
async def renewed(delivery: Delivery) -> AsyncIterator[None]:
    async def keep() -> None:
        while True:
            await delivery.renew()
            await asyncio.sleep(0.2)

    keeping = asyncio.create_task(keep())
    try:
        yield
    finally:
        keeping.cancel()


async def test_a_job_that_waits_goes_on_from_the_message_that_replaced_its_lost_one(
    server: EmbeddedServer,
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        worker(server.url, "calm") as yard,
    ):
        held = await jobs.calm.create(Task(do="wait"))
        await yard.until_running(held)
        following = await jobs.calm.create(Task())
        await until_out(raw, jobs.calm, 2)
        await purge(raw, WORK, subjects.work(following.address))
        first = (await raw.events.history(following.address))[0]
        await WorkMessages(raw.connection).put_back(following.address, first.sequence)
        await until_out(raw, jobs.calm, 2)
        yard.go.set()
        await following.wait(timeout=20)
        await raw.until_empty()
        assert await raw.kinds(following) == ["created", "started", "completed"]


async def start_from(delivery: Delivery, raw: Probe, key: KeyView) -> Attempt:
    """As a worker does that wakes up late: the slot first, then `started`."""
    work, number = delivery.delivered.work, delivery.delivered.number
    late = Attempt("late-attempt", "late-worker", work, number)
    mine = slot(delivery.job.job_id, token=late.id, since=delivery.head.sequence)
    await key.change(lambda state: replace(state, active=(mine,), queued=()))
    begun = delivery.begun
    event = e.Started(job=delivery.job, context=begun.context, at=utc_now(), tries=1, attempt=late)
    assert isinstance(await raw.events.try_append(delivery.head, event), Head)
    return late


async def test_a_newer_waiting_delivery_does_not_disturb_an_attempt_that_started_late(
    server: EmbeddedServer,
) -> None:
    """A delivery was held up past its ack_wait, came again elsewhere, and started after all."""
    async with producer(server.url) as jobs, probe(server.url) as raw:
        key = key_view(raw, jobs.blocked)
        await key.change(lambda state: replace(state, active=(slot("other"),)))
        ref = await jobs.blocked.create(Task())
        old = await held_up(raw)
        async with worker(server.url, "blocked") as waiting:

            async def delivered_again() -> bool:
                info = await consumer(raw, "blocked")
                return int(info["delivered"]["consumer_seq"]) >= 2

            await until(delivered_again, "the job is delivered again")
            looked = time.monotonic() + 2 * seconds(lease_of(jobs.blocked).heartbeat_interval)
            await until(lambda: time.monotonic() > looked, "the worker has read the key again")
            async with renewed(old):
                late = await start_from(old, raw, key)
                end = time.monotonic() + 2 * seconds(jobs.blocked.type.ack_wait)
                await until(lambda: time.monotonic() > end, "other workers had time to interfere")
                head = await raw.events.head(ref.address)
                assert head is not None
                assert head.status.owner == late
                assert await raw.kinds(ref) == [EventKind.CREATED, EventKind.STARTED]
                assert waiting.begun == []


async def test_an_outage_longer_than_a_lease_makes_no_job_stale(server: EmbeddedServer) -> None:
    async with producer(server.url) as jobs:
        async with worker(server.url, "brisk") as one, worker(server.url, "brisk") as two:
            refs = [await jobs.brisk.create(Task(do="wait")) for _ in range(3)]
            await until(lambda: [*one.active, *two.active], "the first one runs")
            server.kill()
            end = time.monotonic() + 1.5 * seconds(lease_of(jobs.brisk).heartbeat_ttl)
            await until(lambda: time.monotonic() > end, "the lease would be over")
            server.restart()
            one.go.set()
            two.go.set()
            for ref in refs:
                assert (await ref.wait(timeout=40)).tries >= 1
        async with probe(server.url) as raw:
            for ref in refs:
                assert EventKind.STALE not in await raw.kinds(ref)


async def test_a_waiting_job_expires_although_every_slot_is_in_use(server: EmbeddedServer) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        worker(server.url, "calm", concurrency=2) as working,
    ):
        holding = await jobs.calm.create(Task(do="wait"))
        await working.until_running(holding)
        waiting = await jobs.calm.create(Task(), deadline=5)

        async def parked() -> bool:
            return int((await consumer(raw, "calm"))["num_ack_pending"]) == 2

        await until(parked, "it waits in the worker")
        other = await jobs.calm.create(Task(key="other", do="wait"))
        await working.until_running(other)
        await until_state(waiting, JobState.EXPIRED)
        await key_view(raw, jobs.calm).until_queued(0)
        working.go.set()
