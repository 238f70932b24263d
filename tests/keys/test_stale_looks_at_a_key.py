"""A worker on a server that left the cluster sees no renewals, and evicts nothing."""

from __future__ import annotations

from tests.keys.work_lab import key_view, producer, until_out, worker
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.fault_proxy import FaultProxy, Then, fault_proxy
from tests.support.lab import probe
from trellis_jobs.contract.topology import KEYS
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.model.events import EventKind


async def stop_the_time_of(key: str, way: FaultProxy, connection: Connection) -> None:
    """From now on, all that is heard and read of this key is as it is now."""
    now = await connection.request(f"$JS.API.DIRECT.GET.{KEYS}.{key}")
    sequence = (now.headers or {})["Nats-Sequence"].encode()
    headers = b"NATS/1.0\r\nNats-Sequence: %s\r\n\r\n" % sequence
    way.answer_reads_with(headers, now.data, times=10_000, stream=KEYS.encode())
    way.when_server_sends(rb"^HMSG \$KV", lambda: Then.SWALLOW, uses=10_000)


async def test_a_job_is_not_ended_by_a_waiter_that_cannot_see_its_renewals(
    server: EmbeddedServer,
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        fault_proxy(server.url) as way,
        worker(server.url, "brisk", concurrency=1) as holder,
    ):
        held = await jobs.brisk.create(Task(do="wait"))
        await holder.until_running(held)
        async with worker(way.url, "brisk") as waiter:
            following = await jobs.brisk.create(Task())
            await until_out(raw, jobs.brisk, 2)
            await stop_the_time_of(key_view(raw, jobs.brisk).subject, way, raw.connection)
            evictions: list[str] = []
            way.on_message(lambda s: evictions.append(s) if s.startswith("$KV") else None)
            await until(lambda: evictions, "it takes the lease for over")
            assert EventKind.STALE not in await raw.kinds(held)
            way.to_server.clear()
            way.to_client.clear()
            holder.go.set()
            await held.wait(timeout=20)
            assert (await following.wait(timeout=40)).tries == 1
            assert waiter.begun == [following.id]
        assert (await key_view(raw, jobs.brisk).until_empty()).stale_takeovers == 0
