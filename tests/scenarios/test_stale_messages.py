"""Late deliveries, duplicates and messages of an earlier run start nothing."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson

from tests.support.example_service import Report, Task
from tests.support.facts import until
from tests.support.lab import LAB, Probe, probe, producer, until_state, worker
from trellis_jobs import JobRef
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import Environment, monotonic, utc_now
from trellis_jobs.jetstream.log.presence import Presence
from trellis_jobs.jetstream.work.delivery import Delivery
from trellis_jobs.jetstream.work.lease_keeper import LeaseKeeper
from trellis_jobs.jetstream.work.puller import WorkPuller
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.model.states import JobState
from trellis_jobs.telemetry import Telemetry
from trellis_jobs.wire import headers as h
from trellis_jobs.worker.background_tasks import BackgroundTasks
from trellis_jobs.worker.claim import Claimer
from trellis_jobs.worker.identity import WorkerIdentity
from trellis_jobs.worker.worker_context import WorkerContext

WORK = LAB.contract.queues["work"]


async def put_back(raw: Probe, ref: JobRef[Report], *, run: int) -> None:
    """What the reconciler sends: the run's first event, naming the run (design D18)."""
    first = (await raw.events.history(ref.address))[0]
    message = await raw.connection.request(
        f"$JS.API.DIRECT.GET.JOBS.{subjects.lifecycle(ref.address, first.event.kind)}"
    )
    headers = {h.RUN_SEQUENCE: str(run)}
    answer = await raw.connection.request(subjects.work(ref.address), message.data, headers=headers)
    assert "error" not in orjson.loads(answer.data)


async def take_one(raw: Probe) -> Delivery:
    """Pull one delivery as a worker would, and do nothing with it."""
    taken: list[Delivery] = []
    queue = WorkPuller(
        raw.connection,
        "lab",
        WORK,
        lambda d: taken.append(d) if d else None,
        monotonic,
    )
    await queue.open()
    await queue.subscribe()
    queue.request(1)
    await until(lambda: taken, "a delivery comes")
    await queue.unsubscribe()
    return taken[0]


def context_of_another_worker(raw: Probe) -> WorkerContext:
    return WorkerContext(
        raw.events,
        Presence(raw.connection, raw.features),
        Telemetry(),
        Environment(),
        BackgroundTasks(),
        LeaseKeeper(raw.connection.open_another, utc_now, monotonic, interval=0.3),
        WorkerIdentity(lambda: "stranger"),
        ack_wait=1.0,
    )


async def test_an_older_delivery_does_not_take_a_live_attempt_over(server: EmbeddedServer) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.work.create(Task(do="wait"))
        old = await take_one(raw)
        async with worker(server.url, "work") as bench:
            await bench.until_running(ref)
            assert await Claimer(WORK, context_of_another_worker(raw), {}).claim(old) is None
            assert (await raw.consumer("work"))["num_ack_pending"] == 1
            assert (await ref.get()).state is JobState.ACTIVE
            bench.go.set()
            assert (await ref.wait(timeout=20)).tries == 1


async def test_a_duplicate_of_a_running_jobs_message_is_dropped(server: EmbeddedServer) -> None:
    async with worker(server.url, "work") as bench, probe(server.url) as raw:
        ref = await bench.jobs.work.create(Task(do="wait"))
        await bench.until_running(ref)
        first = (await raw.events.history(ref.address))[0].sequence
        await put_back(raw, ref, run=first)
        await one_message_left(raw)
        bench.go.set()
        assert (await ref.wait(timeout=20)).tries == 1
        assert bench.runs == [(ref.id, 1)]


async def test_a_duplicate_that_another_worker_gets_is_dropped(server: EmbeddedServer) -> None:
    async with worker(server.url, "work") as bench, probe(server.url) as raw:
        ref = await bench.jobs.work.create(Task(do="wait"))
        await bench.until_running(ref)
        bench.service.quiet()
        async with worker(server.url, "work") as other:
            first = (await raw.events.history(ref.address))[0].sequence
            await put_back(raw, ref, run=first)
            await one_message_left(raw)
            assert other.runs == []
        bench.go.set()
        await ref.wait(timeout=20)


async def test_a_message_of_an_earlier_run_starts_nothing(server: EmbeddedServer) -> None:
    async with worker(server.url, "work") as bench, probe(server.url) as raw:
        ref = await bench.jobs.work.create(Task(do="give up"))
        job = await until_state(ref, JobState.FAILED)
        first = (await raw.events.history(ref.address))[0].sequence
        head = await raw.events.head(ref.address)
        assert head is not None
        again = e.Retried(
            job=ref.address,
            context=job.context,
            at=datetime.now(UTC),
            tries=0,
            payload={"do": "wait"},
            max_tries=1,
        )
        await raw.events.append(head, again)
        await bench.until_running(ref)
        await put_back(raw, ref, run=first)
        await one_message_left(raw)
        assert bench.runs == [(ref.id, 1), (ref.id, 1)]
        bench.go.set()
        await ref.wait(timeout=20)


async def test_a_message_of_a_finished_job_is_dropped(server: EmbeddedServer) -> None:
    async with worker(server.url, "work") as bench, probe(server.url) as raw:
        ref = await bench.jobs.work.create(Task())
        await ref.wait(timeout=20)
        first = (await raw.events.history(ref.address))[0].sequence
        await put_back(raw, ref, run=first)
        await raw.until_empty()
        assert bench.runs == [(ref.id, 1)]


async def test_a_message_whose_job_was_purged_is_dropped(server: EmbeddedServer) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.work.create(Task())
        await until_sourced(raw)
        purge = orjson.dumps({"filter": subjects.history(ref.address)})
        await raw.connection.request("$JS.API.STREAM.PURGE.JOBS", purge)
        async with worker(server.url, "work") as bench:
            await raw.until_empty()
            assert bench.runs == []
        assert await raw.events.history(ref.address) == []


async def test_a_delivery_before_its_time_is_put_back_and_uses_no_try(
    server: EmbeddedServer,
) -> None:
    """A killed server may forget its last deliveries, so the message comes at once."""
    async with worker(server.url, "work") as bench:
        ref = await bench.jobs.work.create(Task(do="later", seconds=0.3))
        await until_state(ref, JobState.RETRY)
        server.kill()
        server.restart()
        assert (await ref.wait(timeout=20)).tries == 2
        _, _, retry, started, _ = await ref.events()
        assert isinstance(retry, e.RetryScheduled)
        assert retry.next_attempt_at is not None
        assert started.at >= retry.next_attempt_at


async def one_message_left(raw: Probe) -> None:
    async def there() -> bool:
        return await raw.work_messages() == 1

    await until(there, "the extra message is gone, the running job's own is kept")


async def until_sourced(raw: Probe) -> None:
    async def there() -> bool:
        return await raw.work_messages() == 1

    await until(there, "the job is in the work queue")
