"""Queues without keys never access the key bucket."""

from __future__ import annotations

import pytest

from tests.keys.keyed_lab import helpdesk, worker
from tests.support.example_service import Task
from tests.support.lab import probe
from trellis_jobs import Accepted, InfrastructureMissing, JobCancelled, JobExists
from trellis_jobs.contract.topology import KEYS
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.message import Message
from trellis_jobs.jetstream.keys import bucket


async def test_a_queue_without_keys_works_where_there_is_no_bucket(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "FAILOVER_TIMEOUT", 0.2)
    async with worker(server.url, "plain") as bench, probe(server.url) as raw:
        await api.request(raw.connection, f"STREAM.DELETE.{KEYS}")
        ref = await bench.jobs.plain.create(Task(key=None))
        assert (await ref.wait(timeout=10)).tries == 1
        running = await bench.jobs.plain.create(Task(do="wait"))
        await bench.until_running(running)
        await running.cancel()
        with pytest.raises(JobCancelled):
            await running.wait(timeout=10)
        await raw.until_empty()
        with pytest.raises(InfrastructureMissing, match=KEYS):
            await bench.jobs.strict.create(Task())


async def test_a_queue_without_keys_neither_reads_nor_writes_the_bucket(
    server: EmbeddedServer,
) -> None:
    heard: list[str] = []

    def listen(message: Message) -> None:
        heard.append(message.subject)

    async with worker(server.url, "plain") as bench, probe(server.url) as raw:
        await raw.connection.subscribe("$KV.>", listen)
        await raw.connection.subscribe(f"$JS.API.*.*.{KEYS}.>", listen)
        await raw.connection.flush()
        outcome = await bench.jobs.plain.submit(Task(), job_id="mine")
        assert isinstance(outcome, Accepted)
        assert (await outcome.ref.wait(timeout=10)).tries == 1
        with pytest.raises(JobExists):
            await bench.jobs.plain.create(Task(), job_id="mine")
        await bench.jobs.plain.create_many([Task()] * 20)
        await raw.until_empty()
        await raw.connection.flush()
        assert heard == []
        await bench.jobs.strict.create(Task())
        await raw.connection.flush()
        assert len(heard) == 2  # a read and a write: the subscription works


async def test_without_a_key_as_many_of_one_payload_run_as_the_worker_has_slots(
    server: EmbeddedServer,
) -> None:
    async with worker(server.url, "plain") as bench, helpdesk(server.url) as (jobs, _):
        refs = await jobs.plain.create_many([Task(do="wait")] * 5)
        for ref in refs:
            await bench.until_running(ref)
