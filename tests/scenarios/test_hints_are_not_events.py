"""Core copies of events, and reads that lag behind, are never believed on their own."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import orjson
import pytest

from tests.support.fault_proxy import fault_proxy
from tests.support.lab import Probe, Report, Task, probe, producer, worker
from trellis_jobs import JobRef, WaitTimeout
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.wire import events as wire
from trellis_jobs.wire import headers as h


async def publish_refused(raw: Probe, event: e.Event, ref: JobRef[Report]) -> None:
    """An event whose guard is wrong: the stream refuses it, core subscribers get it anyway."""
    head = await raw.events.head(ref.address)
    assert head is not None
    headers = h.of_event(event.context, "refused")
    headers[h.EXPECTED_SEQUENCE] = str(head.sequence - 1)
    headers[h.EXPECTED_SUBJECT] = subjects.history(ref.address)
    data = wire.encode(event, head.standing, head.standing.state)
    subject = subjects.lifecycle(ref.address, event.kind)
    answer = orjson.loads((await raw.connection.ask(subject, data, headers=headers)).data)
    assert answer["error"]["err_code"] == 10071


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
            attempt=job.standing.owner,
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
