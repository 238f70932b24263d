"""How soon the jobs of killed workers start elsewhere, on a queue with a lease of half an hour.

Run as a program with the URL of a server it is a worker whose handler never returns.
"""

from __future__ import annotations

import asyncio
import random
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from pydantic import BaseModel
from rich.table import Table

from benchmarks.report import Report, Say
from jobs_admin.config import AdminConfig
from jobs_admin.daemon import serving
from trellis_jobs import ActiveJob, JobRef, Jobs, Service, job
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import utc_now
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.log.event_log import EventLog
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.model import events as e

_POLL_INTERVAL: Final = 0.1


class Nothing(BaseModel):
    pass


class RecoveryJobs(Jobs, service="recovery"):
    long = job(Nothing, ack_wait=1800, concurrency=1)


@dataclass(frozen=True, slots=True)
class Size:
    workers: int
    dead_after: float | None = None


USUAL: Final = Size(workers=20)
QUICK: Final = Size(workers=2, dead_after=2)


def measure(size: Size, say: Say) -> Report:
    with EmbeddedServer.start() as server, tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(server.url, Path(folder), size, say))


async def _measure(url: str, folder: Path, size: Size, say: Say) -> Report:
    config = AdminConfig(nats=url, path=folder / "jobs.sqlite", provision=True)
    producer = Service(RecoveryJobs)
    async with serving(config), producer.connect(url, workers=False):
        connection = await Connection.open(url, name="bench")
        log = EventLog(connection, await detect_features(connection))
        say(f"starting {size.workers} workers")
        workers = _start_workers(url, size)
        try:
            refs = [await producer.jobs.long.create(Nothing()) for _ in workers]
            await asyncio.gather(*(_nth_start(log, ref, 1) for ref in refs))
            say("killing them, one after the other")
            killed = await _kill(workers)
            say("waiting for the second tries")
            async with _other_worker().connect(url):
                recovered = await asyncio.gather(*(_nth_start(log, ref, 2) for ref in refs))
            causes = [cause for ref in refs for cause in await _causes(log, ref)]
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
            await connection.close()
    return _report(size, killed, recovered, causes)


def _start_workers(url: str, size: Size) -> list[subprocess.Popen[bytes]]:
    argv = [sys.executable, "-m", "benchmarks.recovery", url, str(size.dead_after or 0)]
    return [subprocess.Popen(argv) for _ in range(size.workers)]


async def _kill(workers: list[subprocess.Popen[bytes]]) -> datetime:
    """Returns when the first was killed. Spread over the interval of the beats."""
    first = utc_now()
    for worker in workers:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        await asyncio.sleep(random.uniform(0, 0.3))  # noqa: S311 - it spreads the kills
    return first


async def _nth_start(log: EventLog, ref: JobRef[None], number: int) -> datetime:
    while True:
        starts = [
            entry.event.at
            for entry in await log.history(ref.address)
            if isinstance(entry.event, e.Started)
        ]
        if len(starts) >= number:
            return starts[number - 1]
        await asyncio.sleep(_POLL_INTERVAL)


async def _causes(log: EventLog, ref: JobRef[None]) -> list[str]:
    history = [entry.event for entry in await log.history(ref.address)]
    return [event.error.type for event in history if isinstance(event, e.RetryScheduled)]


def _report(size: Size, killed: datetime, recovered: list[datetime], causes: list[str]) -> Report:
    took = sorted((at - killed) / timedelta(seconds=1) for at in recovered)
    return {
        "workers": size.workers,
        "median_s": statistics.median(took),
        "longest_s": took[-1],
        "causes": {cause: causes.count(cause) for cause in sorted(set(causes))},
    }


def table(measured: Report) -> Table:
    shown = Table(title=f"{measured['workers']} workers killed, leases of 1800 s")
    shown.add_column("")
    shown.add_column("figure", justify="right")
    shown.add_row("first kill to second start, median", f"{measured['median_s']:.1f} s")
    shown.add_row("first kill to second start, longest", f"{measured['longest_s']:.1f} s")
    for cause, count in measured["causes"].items():
        shown.add_row(f"recorded as {cause}", str(count))
    return shown


def _other_worker() -> Service[RecoveryJobs]:
    service = Service(RecoveryJobs)

    @service.jobs.long.handle
    async def end(job: ActiveJob[Nothing]) -> None:
        job.log("started elsewhere")

    return service


def _hang(url: str, dead_after: float) -> None:
    service = Service(RecoveryJobs, dead_after=dead_after or None)

    @service.jobs.long.handle
    async def hang(job: ActiveJob[Nothing]) -> None:
        job.log("never returns")
        await asyncio.Event().wait()

    async def run() -> None:
        async with service.connect(url):
            await service.wait()

    asyncio.run(run())


if __name__ == "__main__":
    _hang(sys.argv[1], float(sys.argv[2]))
