"""What the records of many workers cost: one beat, and the beats of a thousand workers at once."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import uvloop
from rich.table import Table

from benchmarks.peers.usage import cpu_of
from benchmarks.report import Report, Say
from jobs_admin.workers.registry import KnownWorker, WorkerRegistry
from trellis_jobs.contract.topology import Topology
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import monotonic, new_id
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.control.worker_feed import WorkerFeed
from trellis_jobs.jetstream.control.worker_records import WorkerRecords
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.model.worker_record import (
    DeclaredDead,
    Directive,
    QueueSlots,
    WorkerProfile,
    WorkerStatus,
)
from trellis_jobs.model.worker_states import WorkerState
from trellis_jobs.worker.identity import WorkerIdentity
from trellis_jobs.worker.registration import WorkerRegistration

_CONNECTIONS: Final = 20
_JOBS: Final = 10


@dataclass(frozen=True, slots=True)
class Size:
    workers: int
    seconds: float
    single_beats: int


USUAL: Final = Size(workers=1_000, seconds=30, single_beats=2_000)
QUICK: Final = Size(workers=10, seconds=1, single_beats=10)


class _IdleWorker:
    """Reports ten running jobs, and ignores directives."""

    def __init__(self) -> None:
        self._status = WorkerStatus(
            WorkerState.RUNNING, {"work": tuple(new_id() for _ in range(_JOBS))}
        )

    def status(self) -> WorkerStatus:
        return self._status

    def follow_directive(self, directive: Directive) -> None:
        pass

    def handle_death(self, dead: DeclaredDead, instance: str) -> None:
        pass


def measure(size: Size, say: Say) -> Report:
    with EmbeddedServer.start() as server:
        return uvloop.run(_measure(server, size, say))


async def _measure(server: EmbeddedServer, size: Size, say: Say) -> Report:
    async with _connections(server.url) as connections:
        features = await detect_features(connections[0])
        await provision(connections[0], Topology(features))
        say("one beat after the other")
        single = await _single_beats(connections[0], size.single_beats)
        say(f"{size.workers} workers for {size.seconds:g} s")
        together = await _together(server, connections, size)
    return {"size": {"workers": size.workers, "seconds": size.seconds}, **single, **together}


async def _single_beats(connection: Connection, count: int) -> Report:
    registration = _registration(connection)
    took: list[float] = []
    cpu = time.process_time()
    for _ in range(count):
        began = monotonic()
        await registration.register()
        took.append(monotonic() - began)
    cpu = time.process_time() - cpu
    await registration.finish(connection)
    took.sort()
    return {
        "beat_p50_ms": 1000 * statistics.median(took),
        "beat_p99_ms": 1000 * took[int(0.99 * len(took))],
        "worker_cpu_us": 1e6 * cpu / count,
    }


async def _together(server: EmbeddedServer, connections: list[Connection], size: Size) -> Report:
    """Beside them a registry reads every beat, as an admin runtime does."""
    registry = WorkerRegistry(monotonic)
    beating = [
        asyncio.create_task(_keep_beating(connections[number % _CONNECTIONS], number, size.workers))
        for number in range(size.workers)
    ]
    reading = asyncio.create_task(registry.run(WorkerFeed(connections[0])))
    while len(_living(registry)) < size.workers:  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0.1)
    before, beats_before = cpu_of([server.pid]), _beats(registry)
    await asyncio.sleep(size.seconds)
    cpu, beats = cpu_of([server.pid]) - before, _beats(registry) - beats_before
    silent = max(registry.silent_for(known).total_seconds() for known in _living(registry))
    for task in (*beating, reading):
        task.cancel()
    await asyncio.gather(*beating, reading, return_exceptions=True)
    return {
        "beats_per_second": beats / size.seconds,
        "server_cpu_us_per_beat": 1e6 * cpu / max(1, beats),
        "server_cpu_share": cpu / size.seconds,
        "longest_silence_s": silent,
    }


async def _keep_beating(connection: Connection, number: int, workers: int) -> None:
    """Workers start at different times, so their beats are spread over the interval."""
    registration = _registration(connection)
    await asyncio.sleep(registration.interval * number / workers)
    await registration.run(connection)


def _beats(registry: WorkerRegistry) -> int:
    return sum(known.record.beat for known in _living(registry))


def _living(registry: WorkerRegistry) -> list[KnownWorker]:
    return [known for known in registry.all() if not known.record.has_ended]


def _registration(connection: Connection) -> WorkerRegistration:
    identity = WorkerIdentity(new_id)
    profile = WorkerProfile(
        service="bench",
        instance=identity.instance,
        hostname="bench",
        pid=1,
        started_at=datetime.now(UTC),
        queues=(QueueSlots("work", _JOBS),),
        concurrency=_JOBS,
    )
    records = WorkerRecords(connection, supports_ttl=True)
    return WorkerRegistration(_IdleWorker(), profile, records, identity, monotonic)


@asynccontextmanager
async def _connections(url: str) -> AsyncIterator[list[Connection]]:
    opened = [await Connection.open(url, name="bench") for _ in range(_CONNECTIONS)]
    try:
        yield opened
    finally:
        for connection in opened:
            await connection.close()


def table(measured: Report) -> Table:
    size = measured["size"]
    shown = Table(title=f"{size['workers']:,} workers, each with {_JOBS} running jobs")
    shown.add_column("")
    shown.add_column("figure", justify="right")
    for name, text in (
        ("a beat, p50", f"{measured['beat_p50_ms']:.2f} ms"),
        ("a beat, p99", f"{measured['beat_p99_ms']:.2f} ms"),
        ("a beat, CPU of the worker", f"{measured['worker_cpu_us']:.0f} µs"),
        ("beats per second, all workers", f"{measured['beats_per_second']:.0f}"),
        ("a beat, CPU of the server", f"{measured['server_cpu_us_per_beat']:.0f} µs"),
        ("share of a core of the server", f"{measured['server_cpu_share']:.1%}"),
        ("longest silence at the end", f"{measured['longest_silence_s']:.1f} s"),
    ):
        shown.add_row(name, text)
    return shown
