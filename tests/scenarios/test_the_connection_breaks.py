"""Lost acknowledgements and connections, a server killed with -9: nothing lost, nothing twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from pathlib import Path

from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.fault_proxy import Then, fault_proxy
from tests.support.lab import probe, producer, until_state, worker
from tests.support.worker_process import worker_process
from trellis_jobs import JobRef
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import api
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.states import JobState


async def test_a_create_whose_acknowledgement_is_lost_makes_one_job(server: EmbeddedServer) -> None:
    async with (
        fault_proxy(server.url) as way,
        probe(server.url) as raw,
        producer(way.url) as jobs,
    ):
        way.when_server_sends(rb'"stream":"JOBS"', lambda: Then.CUT)
        ref = await jobs.work.create(Task())
        assert await raw.kinds(ref) == ["created"]
        log = await api.request(raw.connection, "STREAM.INFO.JOBS")
        assert log["state"]["messages"] == 1


async def test_many_jobs_created_over_a_connection_that_breaks_again_and_again_are_there_once(
    server: EmbeddedServer,
) -> None:
    async with (
        fault_proxy(server.url) as way,
        probe(server.url) as raw,
        producer(way.url) as jobs,
    ):
        way.when_server_sends(rb'"seq":\d*7[,}]', lambda: Then.CUT, uses=5)
        refs = await jobs.work.create_many(Task(text=str(n)) for n in range(1_500))
        assert len({ref.id for ref in refs}) == 1_500
        for n in (0, 511, 512, 1_499):
            assert (await refs[n].get()).payload == Task(text=str(n)).model_dump()
        log = await api.request(raw.connection, "STREAM.INFO.JOBS")
        assert log["state"]["messages"] == 1_500


async def test_an_outcome_whose_acknowledgement_is_lost_is_there_once(
    server: EmbeddedServer,
) -> None:
    async with (
        fault_proxy(server.url) as way,
        probe(server.url) as raw,
        producer(server.url) as jobs,
        worker(way.url, "slow") as bench,
    ):
        ref = await jobs.slow.create(Task(do="wait"))
        await bench.until_running(ref)
        way.when_server_sends(rb'"stream":"JOBS"', lambda: Then.CUT)
        bench.go.set()
        await ref.wait(timeout=20)
        await raw.until_empty()
        assert await raw.kinds(ref) == ["created", "started", "completed"]


async def test_a_worker_cut_off_from_the_server_comes_back_and_goes_on(
    server: EmbeddedServer,
) -> None:
    async with (
        fault_proxy(server.url) as way,
        producer(server.url) as jobs,
        worker(way.url, "work") as bench,
    ):
        before = await jobs.work.create(Task(do="wait"))
        await bench.until_running(before)
        way.cut()
        after = await jobs.work.create(Task())
        await after.wait(timeout=20)
        bench.go.set()
        assert (await before.wait(timeout=20)).tries == 1


async def test_a_cancel_sent_while_the_worker_was_cut_off_is_found_on_return(
    server: EmbeddedServer,
) -> None:
    async with (
        fault_proxy(server.url) as way,
        producer(server.url) as jobs,
        worker(way.url, "slow") as bench,
    ):
        ref = await jobs.slow.create(Task(do="wait"))
        await bench.until_running(ref)
        way.refuse()
        await ref.cancel()
        way.admit()
        await until(lambda: bench.cancelled == [ref.id], "the handler is cancelled")


async def test_a_cancel_of_which_no_hint_arrives_is_found_all_the_same(
    server: EmbeddedServer,
) -> None:
    """As when a partition cuts off the others, and this connection stays."""
    async with (
        fault_proxy(server.url) as way,
        producer(server.url) as jobs,
        worker(way.url, "work") as bench,
    ):
        ref = await jobs.work.create(Task(do="wait"))
        await bench.until_running(ref)
        way.when_server_sends(rb"^HMSG \S+\.cancelled ", lambda: Then.SWALLOW)
        await ref.cancel()
        await until(lambda: bench.cancelled == [ref.id], "the handler is cancelled")


async def test_a_server_killed_under_producer_and_worker_loses_and_doubles_nothing(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    created: list[str] = []

    async def produce(enough: int) -> None:
        async with producer(server.url) as jobs:
            while len(created) < enough:
                created.append((await jobs.work.create(Task())).id)

    with worker_process(server.url, tmp_path, "work", concurrency=20) as working:
        await working.until_ready()
        producing = asyncio.create_task(produce(600))
        for threshold in (150, 300, 450):
            await until(partial(_has, created, threshold), f"{threshold} jobs are created")
            server.kill()
            server.restart()
        await producing
        async with producer(server.url) as jobs, probe(server.url) as raw:
            refs = [jobs.work.ref(job_id) for job_id in created]
            for ref in refs:
                await ref.wait(timeout=40)
            for ref in refs:
                assert Counter(await raw.kinds(ref))[EventKind.COMPLETED] == 1
            await raw.until_empty()


def _has(created: list[str], count: int) -> bool:
    return len(created) >= count


async def test_a_wait_survives_a_server_restart(server: EmbeddedServer) -> None:
    async with worker(server.url, "slow") as bench:
        ref = await bench.jobs.slow.create(Task(do="wait"))
        await bench.until_running(ref)
        waiting = asyncio.create_task(ref.wait(timeout=30))
        watching = asyncio.create_task(_states(ref))
        server.kill()
        server.restart()
        bench.go.set()
        assert (await waiting).tries == 1
        assert (await watching)[-1] is JobState.COMPLETED
        await until_state(ref, JobState.COMPLETED)


async def _states(ref: JobRef[object]) -> list[JobState]:
    return [job.state async for job in ref.watch()]
