"""The projection: how fast the log is taken in, beside a consumer that does nothing with it."""

from __future__ import annotations

import asyncio
import shutil
import statistics
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import uvloop
from rich.console import Group
from rich.table import Table

from benchmarks import (
    dead_jobs,
    dead_reads,
    ours,
    projected_log,
    projected_reads,
    requested_reads,
)
from benchmarks.measure import Stopwatch
from benchmarks.report import Report, Say
from benchmarks.stage import Stage
from jobs_admin.cli.run import collect_rarely
from jobs_admin.projection.ingest import Ingest
from jobs_admin.projection.rebuild import rebuild
from jobs_admin.projection.store import Projection
from trellis_jobs.contract.topology import Topology
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.log.feed import LogFeed, LogPosition
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.jetstream.setup.provision import provision

MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Size:
    rounds: int
    jobs: int
    listed: int
    keyed: int
    asked: int
    drained: int
    dead: int


@dataclass(frozen=True, slots=True)
class Rate:
    """`cpu_microseconds` are of one event, and of this process only: the server has its own."""

    events_per_second: float
    cpu_microseconds: float


USUAL: Final = Size(
    rounds=3, jobs=30_000, listed=10_000, keyed=3_000, asked=200, drained=10_000, dead=10_000
)
QUICK: Final = Size(rounds=1, jobs=200, listed=300, keyed=100, asked=5, drained=200, dead=300)
LARGE: Final = Size(
    rounds=1,
    jobs=MILLION // projected_log.EVENTS_A_JOB,
    listed=MILLION,
    keyed=300_000,
    asked=200,
    drained=10_000,
    dead=MILLION,
)


def measure(url: str, size: Size, say: Say) -> Report:
    collect_rarely()
    with tempfile.TemporaryDirectory() as folder:
        figures = uvloop.run(_measure(url, size, Path(folder), say))
    say(f"draining {size.drained} jobs")
    drained = statistics.median(_drained(url, size) for _ in range(size.rounds))
    events = drained * projected_log.EVENTS_A_JOB
    projected: float = figures["rates"]["projector"]["events_per_second"]
    return {**figures, "drained_per_second": drained, "drain_ratio": projected / events}


def _drained(url: str, size: Size) -> float:
    """Jobs a second that one worker does, whose handler does nothing.

    The jobs of the log that was projected are in the work queue too: no worker runs them.
    """
    with Stage(url, processes=2) as stage:
        stage.do(ours.create_many, size.drained)
        stage.until_queued(size.jobs + size.drained)
        measured = stage.do(ours.drain, size.drained).measured
    return measured.jobs / measured.seconds


async def _measure(url: str, size: Size, folder: Path, say: Say) -> Report:
    async with _log(url) as connection:
        say(f"writing {size.jobs * projected_log.EVENTS_A_JOB} events")
        await projected_log.write(connection, size.jobs)
        feed = LogFeed(connection)
        rates: dict[str, list[Rate]] = {"bare": [], "projector": [], "rebuild": []}
        for number in range(size.rounds):
            say(f"projecting, round {number + 1} of {size.rounds}")
            rates["bare"].append(await _rate(feed, _bare))
            rates["projector"].append(await _rate(feed, _project, folder / f"live-{number}"))
            rates["rebuild"].append(await _rate(feed, _rebuild, folder / f"new-{number}"))
    medians = {name: _median(measured) for name, measured in rates.items()}
    bare, projector = medians["bare"], medians["projector"]
    say(f"listing {size.listed} jobs")
    path, listed = folder / "listed.sqlite", (size.listed, size.keyed, size.asked)
    await projected_reads.fill(path, size.listed, size.keyed)
    return {
        "events": size.jobs * projected_log.EVENTS_A_JOB,
        "rates": {name: asdict(rate) for name, rate in medians.items()},
        "ratio": projector.events_per_second / bare.events_per_second,
        "cpu_ratio": bare.cpu_microseconds / projector.cpu_microseconds,
        "seconds_for_a_million": MILLION / medians["rebuild"].events_per_second,
        "listed": size.listed,
        "keyed": size.keyed,
        "milliseconds": await projected_reads.measure(path, *listed),
        "request_milliseconds": await requested_reads.measure(url, path, *listed),
        **await _about_dead(url, size, folder / "dead.sqlite", say),
    }


async def _about_dead(url: str, size: Size, path: Path, say: Say) -> Report:
    """Their day ends now: a daemon answers by the server's time."""
    say(f"asking about {size.dead} dead jobs")
    died = (path, size.dead, datetime.now(UTC) - timedelta(days=1))
    await dead_jobs.fill(*died)
    return {
        "dead": size.dead,
        "dead_milliseconds": await dead_reads.measure(*died, size.asked),
        "dead_request_milliseconds": await dead_reads.measure_requests(url, *died, size.asked),
    }


@asynccontextmanager
async def _log(url: str) -> AsyncIterator[Connection]:
    connection = await Connection.open(url, name="bench")
    try:
        await provision(connection, Topology(await detect_features(connection)))
        yield connection
    finally:
        await connection.close()


async def _rate(feed: LogFeed, work: Callable[..., Awaitable[int]], *args: Path) -> Rate:
    watch = Stopwatch()
    measured = watch.stop(await work(feed, *args))
    for path in args:
        await asyncio.to_thread(shutil.rmtree, path)
    events = measured.jobs
    return Rate(events / measured.seconds, measured.cpu_seconds / events * 1e6)


def _median(rates: list[Rate]) -> Rate:
    """Of each figure by itself."""
    return Rate(
        statistics.median(rate.events_per_second for rate in rates),
        statistics.median(rate.cpu_microseconds for rate in rates),
    )


async def _bare(feed: LogFeed) -> int:
    events, extent = 0, await feed.extent()
    async for batch in feed.up_to(LogPosition(), extent.last_sequence):
        events += len(batch)
    return events


async def _project(feed: LogFeed, folder: Path) -> int:
    """As the daemon does that was down for a while: into a file that is being read."""
    events, extent = 0, await feed.extent()
    async with Projection.open(folder / "jobs.sqlite") as projection:
        ingest = Ingest(projection, LogPosition(created=extent.created))
        async for batch in feed.up_to(ingest.position, extent.last_sequence):
            await ingest.apply(batch)
            events += len(batch)
    return events


async def _rebuild(feed: LogFeed, folder: Path) -> int:
    return (await rebuild(folder / "jobs.sqlite", feed)).messages


def table(measured: Report) -> Group:
    rates = Table("", "events/s", "CPU µs an event", title=f"{measured['events']:,} events")
    for name, rate in measured["rates"].items():
        rates.add_row(name, f"{rate['events_per_second']:,.0f}", f"{rate['cpu_microseconds']:.1f}")
    rates.add_row("projector / bare", f"{measured['ratio']:.2f}", f"{measured['cpu_ratio']:.2f}")
    drain = f"{measured['drain_ratio']:.2f}"
    rates.add_row(f"projector / worker, {measured['drained_per_second']:,.0f} jobs/s", drain)
    rates.add_row("rebuild of a million, s", f"{measured['seconds_for_a_million']:.0f}")
    jobs, dead = _jobs(measured), f"{measured['dead']:,} dead jobs"
    tables = [
        _percentiles(measured["milliseconds"], f"{jobs}, asked of the file"),
        _percentiles(measured["request_milliseconds"], f"{jobs}, asked of a daemon, over NATS"),
        _percentiles(measured["dead_milliseconds"], f"{dead}, asked of the file"),
        _percentiles(
            measured["dead_request_milliseconds"], f"{dead}, asked of a daemon, over NATS"
        ),
    ]
    return Group(rates, *tables)


def _percentiles(measured: Report, title: str) -> Table:
    asked = Table("", "p50 ms", "p99 ms", title=title)
    for name, took in measured.items():
        asked.add_row(name, f"{took['p50']:.2f}", f"{took['p99']:.2f}")
    return asked


def _jobs(measured: Report) -> str:
    return f"{measured['listed']:,} jobs, and {measured['keyed']:,} live ones with keys"
