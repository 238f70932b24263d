"""A cancel works for every history of the job, and raises an error when no server answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.scenarios.test_strangers_write import CONTEXT, SHARED, foreign, write
from tests.support.example_service import ExampleJobs, Report, Task
from tests.support.facts import until
from tests.support.fault_proxy import fault_proxy
from tests.support.lab import Probe, probe, producer, until_state, worker
from trellis_jobs import JobIsOver, JobRef, NotConfirmed, Service
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import Environment
from trellis_jobs.jetstream.alarms.alarms import Alarms
from trellis_jobs.jetstream.log.decide_again import Appended
from trellis_jobs.jetstream.log.event_log import EventLog, Latest, Lost
from trellis_jobs.model.events import Cancelled, Event
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job_errors import MESSAGE_LIMIT
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.states import JobState
from trellis_jobs.producer.job_ref import JobAccess

# The newest event of a job is read this many times in a row, and then no more.
READS_OF_A_LOOK = 15


@asynccontextmanager
async def shared_producer(url: str) -> AsyncIterator[ExampleJobs[Task, Report]]:
    service = Service(SHARED)
    async with service.connect(url, workers=False):
        yield service.jobs


def contradiction(ref: JobRef[Any]) -> tuple[str, bytes]:
    """A note, which ends nothing, by a client that copies our fields and says the job is over."""
    return foreign(ref.id, "logged", "completed", runSeq=1, maxTries=3)


async def test_a_job_whose_history_begins_with_a_retry_by_an_operator_can_be_cancelled(
    server: EmbeddedServer,
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        await write(raw, *foreign("R1", "retried", "pending", tries=0, maxTries=2, payload={}))
        ref = jobs.work.ref("R1")
        await ref.cancel("not needed")
        assert await raw.kinds(ref) == ["retried", "cancelled"]
        assert (await ref.events())[-1].context.request_id == CONTEXT["requestId"]


@pytest.mark.parametrize("newest", [b"\x00 not an event", b"{}"])
async def test_a_job_whose_newest_message_is_no_event_can_be_cancelled(
    server: EmbeddedServer, newest: bytes
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.work.create(Task())
        await write(raw, f"trellis.jobs.lab.work.{ref.id}.logged", newest)
        await ref.cancel()
        created, cancelled = await ref.events()
        assert cancelled.context == created.context


@pytest.mark.parametrize(
    "reason", [ValueError("why"), 7, {"a": 1}, "\udce4", "x" * 100_000], ids=repr
)
async def test_whatever_the_reason_of_a_cancel_is_the_event_can_be_read_back(
    server: EmbeddedServer, reason: Any
) -> None:
    async with producer(server.url) as jobs:
        ref = await jobs.work.create(Task())
        await ref.cancel(reason)
        cancelled = (await ref.events())[-1]
        assert isinstance(cancelled, Cancelled)
        assert cancelled.reason
        assert len(cancelled.reason) < MESSAGE_LIMIT + 100


async def test_on_a_shared_queue_the_whole_history_says_whether_a_job_is_over(
    server: EmbeddedServer,
) -> None:
    async with (
        producer(server.url) as exclusive,
        shared_producer(server.url) as jobs,
        probe(server.url) as raw,
    ):
        ref = await jobs.work.create(Task())
        await write(raw, *contradiction(ref))
        with pytest.raises(JobIsOver):
            await exclusive.work.ref(ref.id).cancel()
        await ref.cancel()
        assert (await ref.get()).state is JobState.CANCELLED


async def test_on_a_shared_queue_an_event_of_a_foreign_runtime_is_no_reason_to_refuse_a_cancel(
    server: EmbeddedServer,
) -> None:
    async with shared_producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.work.create(Task())
        await write(raw, *foreign(ref.id, "started", "active", previousState="pending"))
        await ref.cancel()
        assert await raw.kinds(ref) == ["created", "started", "cancelled"]


async def test_on_a_shared_queue_an_append_that_was_overtaken_asks_the_whole_history(
    server: EmbeddedServer,
) -> None:
    async with shared_producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.work.create(Task())
        before = await raw.events.latest(ref.address)
        assert before is not None
        await write(raw, *contradiction(ref))
        now = Environment().now()
        cancelled = Cancelled(job=ref.address, context=before.context, at=now, tries=0)
        assert isinstance(await raw.events.append(before.head, cancelled), Lost)
        assert isinstance(await raw.events.append(before.head, cancelled, shared=True), Head)


class OvertakenLog(EventLog):
    """Another writer is always a moment faster."""

    raw: Probe
    meanwhile: tuple[str, bytes]

    async def append_planned(
        self,
        job: JobAddress,
        known: Latest,
        plan: Callable[[Latest], Event | None],
        *,
        timeout: float,
        shared: bool = False,
    ) -> Appended[Latest] | Latest | None:
        await write(self.raw, *self.meanwhile)
        return await super().append_planned(job, known, plan, timeout=timeout, shared=shared)


def overtaken(raw: Probe, ref: JobRef[Any], meanwhile: tuple[str, bytes]) -> JobRef[Any]:
    events = OvertakenLog(raw.connection, raw.features)
    events.raw, events.meanwhile = raw, meanwhile
    environment = Environment()
    alarms = Alarms(raw.connection, raw.features, environment.now)
    access = JobAccess(raw.connection, events, environment, None, alarms)
    return JobRef(ref.address, SHARED.contract.queues["work"], access, since=0)


async def test_on_a_shared_queue_a_cancel_that_was_overtaken_asks_the_whole_history(
    server: EmbeddedServer,
) -> None:
    async with shared_producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.work.create(Task())
        await overtaken(raw, ref, contradiction(ref)).cancel()
        assert await raw.kinds(ref) == ["created", "logged", "cancelled"]


async def test_a_cancel_that_was_overtaken_by_a_start_says_how_many_tries_there_were(
    server: EmbeddedServer,
) -> None:
    async with shared_producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.work.create(Task())
        await overtaken(raw, ref, foreign(ref.id, "started", "active")).cancel()
        assert [event.tries for event in await ref.events()] == [0, 1, 1]


async def test_a_cancel_that_was_overtaken_by_an_end_is_refused(server: EmbeddedServer) -> None:
    async with shared_producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.work.create(Task())
        with pytest.raises(JobIsOver):
            await overtaken(raw, ref, foreign(ref.id, "expired", "expired")).cancel()
        assert await raw.kinds(ref) == ["created", "expired"]


@pytest.mark.parametrize("call", ["get", "events", "cancel"])
async def test_a_server_that_is_gone_is_not_waited_for_without_end(
    server: EmbeddedServer, call: str
) -> None:
    async with producer(server.url) as jobs:
        ref = await jobs.work.create(Task())
        ref.request_timeout = 0.3
        server.kill()
        with pytest.raises(NotConfirmed, match=r"within 0\.3 s") as gone:
            await getattr(ref, call)()
        assert gone.value.job_id == ref.id


def test_a_reference_has_the_same_timeout_as_create() -> None:
    assert JobRef.request_timeout == 30.0


async def test_a_cancel_is_heard_although_the_log_cannot_be_read_for_a_while(
    server: EmbeddedServer,
) -> None:
    async with (
        fault_proxy(server.url) as way,
        worker(way.url) as made,
        producer(server.url) as jobs,
    ):
        ref = await jobs.work.create(Task(do="wait"))
        await made.until_running(ref)
        lies = way.answer_reads_with(b"NATS/1.0 503\r\n\r\n", b"", READS_OF_A_LOOK)
        await ref.cancel()
        await until(lambda: made.cancelled == [ref.id], "its handler is cancelled")
        assert lies() == READS_OF_A_LOOK


async def test_a_cancel_is_heard_although_it_comes_together_with_the_start_of_the_job(
    server: EmbeddedServer,
) -> None:
    async with (
        fault_proxy(server.url) as way,
        worker(way.url, "slow") as made,
        producer(server.url) as jobs,
    ):
        way.freeze_after(rb"\.started ")
        ref = await jobs.slow.create(Task(do="wait"))
        await until_state(ref, JobState.ACTIVE)
        await ref.cancel()
        way.thaw()
        await until(lambda: made.cancelled == [ref.id], "its handler is cancelled")
