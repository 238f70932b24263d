"""A limit for all queues of a process: order, weights, and what the log says about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from tests.support.example_service import (
    Report,
    Task,
    TaskJobs,
    TaskWorker,
    example_jobs,
    task_worker,
)
from tests.support.facts import until
from tests.support.fault_proxy import Then, fault_proxy
from tests.support.lab import Probe, probe, until_state
from trellis_jobs import JobRef, JobState, KeyConcurrency, QueueDepth, Service, Workers
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import DeclarationError
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.control.worker_records import WorkerRecords
from trellis_jobs.model import events as e
from trellis_jobs.model.events import EventKind

OFFICE: Final = example_jobs(
    "office",
    Task,
    Report,
    urgent={"concurrency": 10, "backoff": [0.05]},
    normal={"concurrency": 10, "backoff": [0.05]},
    bulk={"concurrency": 10, "backoff": [0.05]},
    keyed={
        "concurrency": 10,
        "key": KeyConcurrency(["offices", "/key"]),
        "queue": QueueDepth(max_queued_per_key=100),
    },
)
QUEUES: Final = ("urgent", "normal", "bulk")
Refs = Sequence[JobRef[Any]]


@asynccontextmanager
async def office_worker(
    url: str, queues: Any = QUEUES, *, total: int | None = 1, grace: float = 5.0
) -> AsyncIterator[TaskWorker]:
    made = task_worker(Service(OFFICE, grace=grace))
    workers = Workers(queues, total_concurrency=total)
    async with made.service.connect(url, workers=workers):
        yield made
    made.go.set()


@asynccontextmanager
async def producer(url: str) -> AsyncIterator[TaskJobs]:
    service = Service(OFFICE)
    async with service.connect(url, workers=False):
        yield service.jobs


async def fill(jobs: TaskJobs, count: int, *tasks: Task, queues: Sequence[str] = QUEUES) -> Refs:
    """Creates the least important jobs first."""
    made: list[JobRef[Any]] = []
    for queue in reversed(queues):
        payloads = [(tasks or (Task(),))[i % max(1, len(tasks))] for i in range(count)]
        made += await getattr(jobs, queue).create_many(payloads)
    return made


async def until_listening(raw: Probe, *queues: str) -> None:
    """Waits until an idle worker has found all queues empty and waits for a job of any of them."""

    async def listens() -> bool:
        found = [
            await api.request(raw.connection, f"CONSUMER.INFO.JOBS_WORK.office-{queue}")
            for queue in queues
        ]
        return all(info["num_waiting"] == 1 for info in found)

    await until(listens, "a request waits for each queue")


async def events_of(raw: Probe, refs: Refs) -> list[e.Event]:
    """The events of all these jobs, in the order of the log."""
    entries = [entry for ref in refs for entry in await raw.events.history(ref.address)]
    return [entry.event for entry in sorted(entries, key=lambda entry: entry.sequence)]


async def queues_started(raw: Probe, refs: Refs) -> list[str]:
    return [
        event.job.job_type for event in await events_of(raw, refs) if isinstance(event, e.Started)
    ]


async def most_active(raw: Probe, refs: Refs) -> int:
    """How many of the jobs were active at the same time, by the log."""
    active: set[str] = set()
    most = 0
    for event in await events_of(raw, refs):
        if isinstance(event, e.Started):
            active.add(event.job.job_id)
        elif event.kind in {EventKind.COMPLETED, EventKind.RETRY, EventKind.DEAD}:
            active.discard(event.job.job_id)
        most = max(most, len(active))
    return most


async def until_done(*refs: JobRef[Any]) -> None:
    for ref in refs:
        await ref.wait(timeout=30)


async def test_all_jobs_of_an_important_queue_run_before_those_of_the_next(
    server: EmbeddedServer,
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        refs = await fill(jobs, 12)
        await raw.until_queued(36)
        async with office_worker(server.url):
            await until_done(*refs)
        assert await queues_started(raw, refs) == [queue for queue in QUEUES for _ in range(12)]


async def test_an_urgent_job_is_next_while_others_wait(server: EmbeddedServer) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        first, *others = await jobs.bulk.create_many([Task(do="wait")] * 5)
        await raw.until_queued(5)
        async with office_worker(server.url) as made:
            await made.until_running(first)
            urgent = await jobs.urgent.create(Task())
            await raw.until_queued(6)
            made.go.set()
            await until_done(urgent, first, *others)
            assert made.begun[:2] == [first.id, urgent.id]
        assert await most_active(raw, [first, *others, urgent]) == 1


async def test_the_first_starts_follow_the_weights(server: EmbeddedServer) -> None:
    weights = {"urgent": 6, "normal": 3, "bulk": 1}
    async with producer(server.url) as jobs, probe(server.url) as raw:
        refs = await fill(jobs, 60)
        await raw.until_queued(180)
        async with office_worker(server.url, weights, total=4):
            await until_done(*refs)
        started = await queues_started(raw, refs)
    shares = Counter(started[:50])
    for queue, expected in {"urgent": 30, "normal": 15, "bulk": 5}.items():
        assert abs(shares[queue] - expected) <= 4, shares


async def test_without_an_order_all_queues_have_the_same_share(server: EmbeddedServer) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        refs = await fill(jobs, 20)
        await raw.until_queued(60)
        async with office_worker(server.url, None, total=1):
            await until_done(*refs)
        shares = Counter((await queues_started(raw, refs))[:30])
    assert all(abs(shares[queue] - 10) <= 2 for queue in QUEUES), shares


@pytest.mark.parametrize("queues", [[*QUEUES, "keyed"], dict.fromkeys([*QUEUES, "keyed"], 2)])
async def test_no_more_jobs_are_active_in_the_log_than_the_total(
    server: EmbeddedServer, queues: Any
) -> None:
    tasks = (Task(key="a"), Task(key="b"), Task(do="nap", seconds=0.005, key="a"))
    async with producer(server.url) as jobs, probe(server.url) as raw:
        refs = [*await fill(jobs, 30, Task(do="fail once"), *tasks)]
        async with office_worker(server.url, queues, total=3):
            refs += await fill(jobs, 20, *tasks, queues=[*QUEUES, "keyed"])
            await until_done(*refs)
        assert await most_active(raw, refs) == 3


async def test_a_job_keeps_its_slot_until_its_outcome_is_in_the_log(
    server: EmbeddedServer,
) -> None:
    async with (
        fault_proxy(server.url) as way,
        producer(server.url) as jobs,
        probe(server.url) as raw,
    ):
        lost: list[None] = []

        def lose() -> Then:
            lost.append(None)
            return Then.SWALLOW

        way.when_client_sends(rb"PUB trellis\.jobs\.office\.\S+\.completed ", lose)
        refs = await jobs.urgent.create_many([Task()] * 8)
        async with office_worker(way.url, ["urgent"], total=2):
            await until_done(*refs)
        assert lost
        assert await most_active(raw, refs) == 2


async def test_the_limit_of_a_queue_counts_too(server: EmbeddedServer) -> None:
    async with producer(server.url) as jobs:
        service = Service(OFFICE)
        made = task_worker(service)
        workers = Workers(["urgent", "bulk"], concurrency=1, total_concurrency=5)
        async with service.connect(server.url, workers=workers):
            refs = await fill(jobs, 3, Task(do="wait"), queues=["urgent", "bulk"])
            await until(lambda: len(made.active) == 2, "one job of each queue runs")
            made.go.set()
            await until_done(*refs)


async def test_an_idle_worker_starts_a_job_of_any_queue(server: EmbeddedServer) -> None:
    async with producer(server.url) as jobs, office_worker(server.url, [*QUEUES, "keyed"]) as made:
        for queue in ("bulk", "urgent", "keyed", "normal", "bulk"):
            ref = await getattr(jobs, queue).create(Task())
            await ref.wait(timeout=4)
            assert made.begun[-1] == ref.id


async def test_a_job_that_waits_for_its_key_leaves_its_slot_to_other_queues(
    server: EmbeddedServer,
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        async with office_worker(server.url, ["keyed", "bulk"], total=2) as made:
            holder = await jobs.keyed.create(Task(do="wait"))
            await made.until_running(holder)
            waiting = await jobs.keyed.create_many([Task()] * 4)
            other = await jobs.bulk.create(Task())
            await other.wait(timeout=10)
            made.go.set()
            await until_done(holder, *waiting)
            assert made.begun == [holder.id, other.id, *(ref.id for ref in waiting)]
        assert await most_active(raw, [holder, *waiting, other]) <= 2


async def test_a_job_that_arrives_without_a_slot_runs_elsewhere_as_its_first_try(
    server: EmbeddedServer,
) -> None:
    queues = [*QUEUES, "keyed"]
    async with producer(server.url) as jobs, probe(server.url) as raw:
        async with office_worker(server.url, queues) as busy:
            await until_listening(raw, *queues)
            refs = [await getattr(jobs, queue).create(Task(do="wait")) for queue in queues]
            await until(lambda: busy.active, "the busy worker has a job")
            async with office_worker(server.url, queues, total=None) as other:
                others = [ref for ref in refs if ref.id not in busy.active]
                await other.until_running(*others)
                assert set(other.runs) == {(ref.id, 1) for ref in others}
                other.go.set()
                await until_done(*others)
            assert len(busy.runs) == 1
            busy.go.set()
            await until_done(*refs)
        for ref in refs:
            kinds = await raw.kinds(ref)
            assert kinds == [EventKind.CREATED, EventKind.STARTED, EventKind.COMPLETED]


@pytest.mark.parametrize("how", ["quiet", "stop"])
async def test_a_worker_that_ends_or_is_quiet_keeps_no_job_of_a_shared_slot(
    server: EmbeddedServer, how: str
) -> None:
    queues = [*QUEUES, "keyed"]
    async with producer(server.url) as jobs, probe(server.url) as raw:
        async with office_worker(server.url, queues, grace=0) as leaving:
            await until_listening(raw, *queues)
            first = await jobs.urgent.create(Task(do="wait"))
            await leaving.until_running(first)
            # The first one of each other queue arrives here, where the slot is taken.
            refs = await fill(jobs, 3, queues=queues)
            if how == "stop":
                await leaving.service.stop(grace=0)
            else:
                leaving.service.quiet()
            async with office_worker(server.url, queues, total=None) as other:
                other.go.set()
                await until_done(*refs)
                assert {ref.id for ref in refs} <= set(other.begun)
            leaving.go.set()
        for ref in refs:
            kinds = await raw.kinds(ref)
            assert kinds == [EventKind.CREATED, EventKind.STARTED, EventKind.COMPLETED]
        assert (await first.get()).tries <= 1


async def test_a_resumed_worker_works_in_order_again(server: EmbeddedServer) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        async with office_worker(server.url) as made:
            made.service.quiet()
            refs = await fill(jobs, 5)
            await raw.until_queued(15)
            made.service.resume()
            await until_done(*refs)
        assert await queues_started(raw, refs) == [queue for queue in QUEUES for _ in range(5)]


async def test_it_goes_on_after_its_connection_was_lost(server: EmbeddedServer) -> None:
    async with (
        fault_proxy(server.url) as way,
        producer(server.url) as jobs,
        office_worker(way.url, total=2) as made,
    ):
        before = await fill(jobs, 2)
        await until_done(*before)
        way.cut()
        after = await fill(jobs, 5)
        await until_done(*after)
        assert len(made.runs) == len(before) + len(after)


async def test_a_deleted_consumer_holds_up_no_other_queue_and_is_made_again(
    server: EmbeddedServer,
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        office_worker(server.url) as made,
    ):
        await until_done(await jobs.urgent.create(Task()))
        await api.request(raw.connection, "CONSUMER.DELETE.JOBS_WORK.office-urgent")
        refs = await fill(jobs, 3)
        await until_done(*refs)
        assert len(made.begun) == 10


async def test_a_paused_queue_holds_up_no_other(server: EmbeddedServer) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw, office_worker(server.url):
        pause = {"pause_until": "2100-01-01T00:00:00Z"}
        await api.request(raw.connection, "CONSUMER.PAUSE.JOBS_WORK.office-urgent", pause)
        paused, *others = reversed(await fill(jobs, 1))
        await until_done(*others)
        assert (await paused.get()).state is JobState.PENDING
        await api.request(raw.connection, "CONSUMER.PAUSE.JOBS_WORK.office-urgent", {})
        await until_state(paused, JobState.COMPLETED)


async def test_the_record_has_the_queues_in_order_and_the_total(server: EmbeddedServer) -> None:
    async with probe(server.url) as raw, office_worker(server.url, ["bulk", "urgent"], total=4):
        records = WorkerRecords(raw.connection, supports_ttl=raw.features.message_ttl)
        (stored,) = await records.all("office")
        profile = stored.record.profile
        assert [queue.job_type for queue in profile.queues] == ["bulk", "urgent"]
        assert profile.concurrency == 4


@pytest.mark.parametrize(
    ("workers", "words"),
    [
        (Workers(total_concurrency=0), "total_concurrency must be at least 1, is 0"),
        (Workers({"urgent": 0}, total_concurrency=1), "'urgent' must be a whole number of at lea"),
        (Workers({"urgent": 1.5}, total_concurrency=1), "at least 1, is 1.5"),
        (Workers({"urgent": 2}), "set total_concurrency too"),
        (Workers({"urgent", "bulk"}, total_concurrency=1), "a set of queues has no order"),
        (Workers(["nosuch"], total_concurrency=1), "has no queue 'nosuch'"),
    ],
)
async def test_an_order_that_means_nothing_is_refused(workers: Workers, words: str) -> None:
    service = task_worker(Service(OFFICE)).service
    with pytest.raises(DeclarationError, match=words):
        async with service.connect("nats://127.0.0.1:1", workers=workers):
            pass
