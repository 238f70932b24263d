"""The lease of a delivery lasts ack_wait from its arrival, not from when a worker starts on it."""

from __future__ import annotations

from tests.scenarios.test_stale_messages import take_one
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.fault_proxy import fault_proxy
from tests.support.lab import Probe, probe, producer, worker
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.settlement import Nak


async def delivered(raw: Probe) -> int:
    return int((await raw.consumer("work"))["delivered"]["consumer_seq"])


async def test_handing_back_a_delivery_that_came_again_elsewhere_starts_nothing(
    server: EmbeddedServer,
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.work.create(Task(do="wait"))
        old = await take_one(raw)
        async with worker(server.url, "work") as bench:
            await bench.until_running(ref)
            await old.answer(Nak())
            await raw.connection.flush()
            assert await delivered(raw) == 2
            bench.go.set()
            assert (await ref.wait(timeout=20)).tries == 1


async def test_a_worker_whose_start_was_confirmed_too_late_asks_whether_the_job_is_still_its(
    server: EmbeddedServer,
) -> None:
    async with (
        producer(server.url) as jobs,
        fault_proxy(server.url) as way,
        worker(way.url, "work") as late,
    ):
        way.freeze_after(rb"\.started ")
        ref = await jobs.work.create(Task(do="wait"))
        async with worker(server.url, "work") as other:
            await other.until_running(ref)
            way.thaw()
            await until(lambda: late.cancelled == [ref.id], "the late worker stops its handler")
            other.go.set()
            assert (await ref.wait(timeout=20)).tries == 2
