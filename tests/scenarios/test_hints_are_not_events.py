"""Core copies of events and stale reads alone decide nothing."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import orjson
import pytest

from tests.support.example_service import Report, Task
from tests.support.fault_proxy import fault_proxy
from tests.support.lab import Probe, probe, producer, until_state, worker
from trellis_jobs import JobRef, WaitTimeout
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import Environment
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.states import JobState
from trellis_jobs.wire import events as wire
from trellis_jobs.wire import headers as h
from trellis_jobs.worker.handlers import Handler
from trellis_jobs.worker.queue_worker import QueueWorker


async def publish_refused(raw: Probe, event: e.Event, ref: JobRef[Report]) -> None:
    """An event whose guard is wrong: the stream refuses it, core subscribers get it anyway."""
    head = await raw.events.head(ref.address)
    assert head is not None
    headers = h.of_event(event.context, "refused")
    headers[h.EXPECTED_SEQUENCE] = str(head.sequence - 1)
    headers[h.EXPECTED_SUBJECT] = subjects.history(ref.address)
    data = wire.encode(event, head.status, head.status.state)
    subject = subjects.lifecycle(ref.address, event.kind)
    answer = orjson.loads((await raw.connection.request(subject, data, headers=headers)).data)
    assert answer["error"]["err_code"] == 10071


async def test_a_job_that_ends_before_a_worker_takes_its_first_is_none_of_its(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def call(_: object) -> None: ...

    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.slow.create(Task())
        handler = Handler(jobs.slow.type, call, "call")
        opened = QueueWorker(raw.connection, "lab", handler, 1, None, Environment())
        await opened.open()
        await ref.cancel()
        await raw.connection.flush()
        await opened.close()
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_cancel_that_the_log_refused_does_not_stop_the_handler(
    server: EmbeddedServer,
) -> None:
    async with worker(server.url, "slow") as bench, probe(server.url) as raw:
        ref = await bench.jobs.slow.create(Task(do="wait"))
        await bench.until_running(ref)
        context = (await ref.get()).context
        cancelled = e.Cancelled(job=ref.address, context=context, at=datetime.now(UTC), tries=1)
        await publish_refused(raw, cancelled, ref)
        await asyncio.sleep(0.7)  # longer than the worker keeps looking after a hint
        assert bench.cancelled == []
        bench.go.set()
        await ref.wait(timeout=10)


async def test_a_completion_that_the_log_refused_does_not_end_a_wait(
    server: EmbeddedServer,
) -> None:
    async with worker(server.url, "slow") as bench, probe(server.url) as raw:
        ref = await bench.jobs.slow.create(Task(do="wait", text="real"))
        await bench.until_running(ref)
        job = await ref.get()
        waiting = asyncio.create_task(ref.wait(timeout=1))
        forged = e.Completed(
            job=ref.address,
            context=job.context,
            at=datetime.now(UTC),
            tries=1,
            attempt=job.job.status.owner,
            result={"text": "forged", "tries": 1},
        )
        await publish_refused(raw, forged, ref)
        with pytest.raises(WaitTimeout):
            await waiting
        bench.go.set()
        assert (await ref.wait(timeout=10)).text == "real"


async def test_a_read_that_lags_behind_never_leads_to_an_ack(server: EmbeddedServer) -> None:
    """The second try's read is answered 404, as a lagging replica would: the job is not dropped."""
    async with fault_proxy(server.url) as way, producer(server.url) as jobs:
        lies = way.answer_reads_with_404(times=3)
        async with worker(way.url, "work"), probe(server.url) as raw:
            ref = await jobs.work.create(Task(do="fail once"))
            assert (await ref.wait(timeout=20)).tries == 2
            assert lies() == 3
            await raw.until_empty()


async def test_an_old_end_read_from_a_lagging_replica_does_not_end_the_new_run(
    server: EmbeddedServer,
) -> None:
    """Retried after it failed; a replica still answers with the failure. The run is not dropped."""
    async with producer(server.url) as jobs, probe(server.url) as raw:
        async with worker(server.url, "work"):
            ref = await jobs.work.create(Task(do="give up"))
            job = await until_state(ref, JobState.FAILED)
        failed = subjects.lifecycle(ref.address, e.EventKind.FAILED)
        old = await raw.connection.request(f"$JS.API.DIRECT.GET.JOBS.{failed}")
        head = await raw.events.head(ref.address)
        assert head is not None
        fields: e.EventFields = {
            "job": ref.address,
            "context": job.context,
            "at": datetime.now(UTC),
            "tries": 0,
        }
        retried = e.Retried(**fields, payload={"text": "again"}, max_tries=2)
        newer = await raw.events.append(head, retried)
        assert isinstance(newer, Head)
        # A note on top: the first guard of the next worker is refused, so it has to read.
        await raw.events.append(
            newer, e.StaleCompletionIgnored(**fields, lost_attempt="A0", reason="a late word")
        )
        async with fault_proxy(server.url) as way:
            lies = way.answer_reads_with(as_bytes(old.headers or {}), old.data, times=3)
            async with worker(way.url, "work"):
                assert (await ref.wait(timeout=20)).text == "again"
                assert lies() == 3


def as_bytes(headers: dict[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"NATS/1.0\r\n{lines}\r\n".encode()
