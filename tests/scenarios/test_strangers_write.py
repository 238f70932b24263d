"""Others on the same log: foreign runtimes that follow the wire, and forgers that do not."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from tests.support.example_service import Report, Task, example_jobs
from tests.support.facts import until
from tests.support.lab import Probe, probe, producer, worker
from trellis_jobs import ActiveJob, JobRef, Service
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.states import JobState

CONTEXT = {
    "requestId": "01JZ8Q4X7N8R2M4D6F1H3J5K7P",
    "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
}


# The lab's queue, shared with runtimes that record no attempts and guard nothing.
SHARED: Final = example_jobs(
    "lab",
    Task,
    Report,
    work={"shared": True, "ack_wait": 1, "max_deliver": 3, "backoff": [0.1]},
)


def foreign(job_id: str, kind: str, state: str, **fields: Any) -> tuple[str, bytes]:
    """An event as the original runtimes write it: none of our extra fields."""
    body = {
        "jobId": job_id,
        "context": CONTEXT,
        "service": "lab",
        "jobType": "work",
        "eventType": kind,
        "state": state,
        "tries": 1,
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
    return f"trellis.jobs.lab.work.{job_id}.{kind}", orjson.dumps(body | fields)


async def write(raw: Probe, subject: str, data: bytes) -> None:
    answer = await raw.connection.request(subject, data)
    assert "error" not in orjson.loads(answer.data)


async def test_a_job_created_by_a_foreign_runtime_runs_here(server: EmbeddedServer) -> None:
    async with worker(server.url, "work") as bench, probe(server.url) as raw:
        created = foreign("F1", "created", "pending", tries=0, maxTries=2, payload={"text": "hi"})
        await write(raw, *created)
        assert (await bench.jobs.work.ref("F1").wait(timeout=10)).text == "hi"


async def test_a_cancel_by_a_foreign_runtime_reaches_the_handler(server: EmbeddedServer) -> None:
    async with worker(server.url, "work") as bench, probe(server.url) as raw:
        ref = await bench.jobs.work.create(Task(do="wait"))
        await bench.until_running(ref)
        await write(raw, *foreign(ref.id, "cancelled", "cancelled", previousState="active"))
        await until(lambda: bench.cancelled == [ref.id], "the handler is cancelled")
        assert (await ref.get()).state is JobState.CANCELLED


async def test_a_foreign_attempt_that_went_silent_is_taken_over_on_a_shared_queue(
    server: EmbeddedServer,
) -> None:
    service = Service(SHARED)

    @service.jobs.work.handle
    async def run(active: ActiveJob[Task]) -> Report:
        return Report(text="ours", tries=active.tries)

    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.work.create(Task())
        await take_and_forget(raw, ref)
        await write(raw, *foreign(ref.id, "started", "active", previousState="pending"))
        async with service.connect(server.url):
            assert (await ref.wait(timeout=20)).text == "ours"
        assert await raw.kinds(ref) == ["created", "started", "retry", "started", "completed"]


async def take_and_forget(raw: Probe, ref: JobRef[Report]) -> None:
    """The foreign worker's delivery: pulled, never answered."""

    async def has_consumer() -> bool:
        return await raw.work_messages() == 1

    await until(has_consumer, f"{ref} is in the work queue")
    config = {
        "durable_name": "lab-work",
        "name": "lab-work",
        "filter_subject": "trellis.work.lab.work.*",
        "ack_policy": "explicit",
        "ack_wait": 1_000_000_000,
        "max_deliver": -1,
        "max_ack_pending": -1,
    }
    call = "$JS.API.CONSUMER.CREATE.JOBS_WORK.lab-work.trellis.work.lab.work.*"
    body = {"stream_name": "JOBS_WORK", "action": "create", "config": config}
    await raw.connection.request(call, orjson.dumps(body))
    inbox, taken = raw.connection.new_inbox(), asyncio.Event()
    await raw.connection.subscribe(inbox, lambda _: taken.set())
    await raw.connection.publish(
        "$JS.API.CONSUMER.MSG.NEXT.JOBS_WORK.lab-work", b'{"batch":1}', reply=inbox
    )
    await taken.wait()


async def test_an_event_forged_through_a_servers_reply_is_ignored(server: EmbeddedServer) -> None:
    """A service points the answer to its own read at another job: the server writes it there."""
    async with worker(server.url, "work") as bench, probe(server.url) as raw:
        ref = await bench.jobs.work.create(Task(do="wait", text="real"))
        await bench.until_running(ref)
        # Stored under the forger's own subject, though its body is about another job.
        _, data = foreign(ref.id, "cancelled", "cancelled", runSeq=1, maxTries=3)
        await write(raw, "trellis.jobs.forger.own.x.logged", data)
        target = f"trellis.jobs.lab.work.{ref.id}.cancelled"
        read = "$JS.API.DIRECT.GET.JOBS.trellis.jobs.forger.own.x.logged"
        await raw.connection.publish(read, b"", reply=target)

        async def is_stored() -> bool:
            answer = await raw.connection.request(f"$JS.API.DIRECT.GET.JOBS.{target}")
            return "Nats-Sequence" in (answer.headers or {})

        await until(is_stored, "the forged event is in the log")
        assert (await ref.get()).state is JobState.ACTIVE
        head = await raw.events.head(ref.address)
        assert head is not None
        assert head.status.state is JobState.ACTIVE
        await asyncio.sleep(0.7)  # longer than the worker keeps looking after a hint
        assert bench.cancelled == []
        bench.go.set()
        assert (await ref.wait(timeout=10)).text == "real"
