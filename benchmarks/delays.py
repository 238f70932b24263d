"""Delayed jobs: how late they are released, how fast they are created, and what waiting ones weigh.

Lateness is from the time that was asked for to the time when the server stored `created`. The
producer and the worker are two processes' worth of work in one process, as in a small service.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.table import Table

from benchmarks.scale.server import observed_server, weigh
from benchmarks.stage import connected
from benchmarks.workload import Invoice
from trellis_jobs import ActiveJob, Jobs, Service, job
from trellis_jobs.contract.topology import LOG
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.pull_consumer import EphemeralConsumer, open_ephemeral_consumer
from trellis_jobs.jetstream.client.stored_message import moment_of
from trellis_jobs.model import subjects
from trellis_jobs.model.events import Created, EventKind
from trellis_jobs.model.job import Entry
from trellis_jobs.wire import log as wire

if TYPE_CHECKING:
    from benchmarks.report import Report, Say
    from trellis_jobs.embedded import EmbeddedServer
    from trellis_jobs.jetstream.client.connection import Connection

SERVICE: Final = "bench-delays"
_FAR: Final = timedelta(days=30)
_CHUNK: Final = 10_000
_LEAD: Final = timedelta(seconds=3)
_READ_TIMEOUT: Final = timedelta(seconds=60)


class DelayJobs(Jobs, service=SERVICE):
    later = job(Invoice, concurrency=100)


@dataclass(frozen=True, slots=True)
class Size:
    """`rate` jobs a second come due for `seconds`, beside `waiting`; then `burst` at one moment."""

    rate: int
    seconds: int
    waiting: int
    burst: int


USUAL: Final = Size(rate=200, seconds=20, waiting=100_000, burst=10_000)
LARGE: Final = Size(rate=200, seconds=20, waiting=1_000_000, burst=10_000)
QUICK: Final = Size(rate=20, seconds=1, waiting=200, burst=50)


def measure(size: Size, say: Say) -> Report:
    with observed_server() as server:
        return asyncio.run(_measure(server, size, say))


async def _measure(server: EmbeddedServer, size: Size, say: Say) -> Report:
    service = Service(DelayJobs)

    @service.jobs.later.handle
    async def handle(_: ActiveJob[Invoice]) -> None:
        return None

    async with service.connect(server.url), connected(server.url) as connection:
        say(f"{size.rate} jobs a second")
        alone = await _steady(service, connection, size)
        say(f"creating {size.waiting} jobs that wait")
        empty = weigh(server)
        created_per_second = await _fill(service, size.waiting)
        full = weigh(server)
        say(f"{size.rate} jobs a second beside {size.waiting} that wait")
        beside = await _steady(service, connection, size)
        say(f"{size.burst} jobs at one moment")
        burst = await _burst(service, connection, size.burst)
    return {
        **asdict(size),
        "alone": _lateness(alone),
        "beside": _lateness(beside),
        "together": _lateness(burst),
        "created_per_second": created_per_second,
        "heap_per_waiting_job": (full.heap - empty.heap) / size.waiting,
        "disk_per_waiting_job": (full.on_disk - empty.on_disk) / size.waiting,
    }


async def _fill(service: Service[DelayJobs], jobs: int) -> float:
    began, run_at = time.monotonic(), datetime.now(UTC) + _FAR
    for first in range(0, jobs, _CHUNK):
        numbers = range(first, min(first + _CHUNK, jobs))
        await service.jobs.later.create_many((Invoice(number=n) for n in numbers), run_at=run_at)
    return jobs / (time.monotonic() - began)


async def _steady(service: Service[DelayJobs], connection: Connection, size: Size) -> list[float]:
    """Each job has its own moment; they are created before the first is due."""
    first, jobs = datetime.now(UTC) + _LEAD, size.rate * size.seconds
    moments = [first + timedelta(seconds=n / size.rate) for n in range(jobs)]
    since = await _last_sequence(connection)
    for start in range(0, jobs, size.rate):
        some = enumerate(moments[start : start + size.rate], start)
        await asyncio.gather(
            *(service.jobs.later.create(Invoice(number=n), run_at=at) for n, at in some)
        )
    return await _released(connection, since, jobs)


async def _burst(service: Service[DelayJobs], connection: Connection, jobs: int) -> list[float]:
    run_at = datetime.now(UTC) + _LEAD + timedelta(milliseconds=jobs / 5)
    since = await _last_sequence(connection)
    await service.jobs.later.create_many((Invoice(number=n) for n in range(jobs)), run_at=run_at)
    return await _released(connection, since, jobs)


async def _last_sequence(connection: Connection) -> int:
    info = await api.request(connection, f"STREAM.INFO.{LOG}")
    return int(info["state"]["last_seq"])


async def _released(connection: Connection, since: int, jobs: int) -> list[float]:
    """Reads `created` of every job, with the server's time, and returns how late each was."""
    wanted = EphemeralConsumer(
        stream=LOG,
        name_prefix="bench",
        start_sequence=since + 1,
        subject=subjects.of_kind(SERVICE, "later", EventKind.CREATED),
        idle_timeout=_READ_TIMEOUT,
        delete_after_use=True,
    )
    late: list[float] = []
    async with open_ephemeral_consumer(connection, wanted) as pull:
        async for message, info in pull.stream(batch_size=500):
            read = wire.read(message.subject, info.stream_sequence, message.data, message.headers)
            if isinstance(read, Entry) and isinstance(read.event, Created) and read.event.run_at:
                late.append((moment_of(info.stored_ns) - read.event.run_at).total_seconds())
            if len(late) == jobs:
                return late
    return late


def _lateness(late: list[float]) -> dict[str, float]:
    late = sorted(late)
    return {
        "first": 1_000 * late[0],
        "p50": 1_000 * statistics.median(late),
        "p99": 1_000 * late[round(0.99 * (len(late) - 1))],
        "max": 1_000 * late[-1],
    }


def table(measured: Report) -> Group:
    shown = Table("", "p50 ms", "p99 ms", "max ms", "first ms", title="how late jobs are released")
    rows = {
        f"{measured['rate']} jobs/s": "alone",
        f"the same beside {measured['waiting']:,} that wait": "beside",
        f"{measured['burst']:,} at one moment": "together",
    }
    for title, name in rows.items():
        figures = measured[name]
        shown.add_row(title, *(f"{figures[each]:,.1f}" for each in ("p50", "p99", "max", "first")))
    return Group(
        shown,
        f"create_many of jobs that wait: {measured['created_per_second']:,.0f} a second",
        f"a job that waits: {measured['heap_per_waiting_job']:,.0f} bytes of the server's heap, "
        f"{measured['disk_per_waiting_job']:,.0f} of disk",
    )
