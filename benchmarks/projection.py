"""The projection: how fast the log is taken in, beside a consumer that does nothing with it."""

from __future__ import annotations

import asyncio
import shutil
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import uvloop
from rich.console import Group
from rich.table import Table

from benchmarks import projected_log
from benchmarks.measure import Stopwatch
from benchmarks.report import Report
from jobs_admin.projection.batch import Changes, JobRow
from jobs_admin.projection.intake import Intake
from jobs_admin.projection.rebuild import rebuild
from jobs_admin.projection.rows import microseconds
from jobs_admin.projection.store import Projection
from jobs_admin.reads import jobs as reads
from jobs_admin.reads.jobs import JobFilter
from jobs_admin.reads.readers import Readers
from jobs_admin.reads.services import page as services
from jobs_admin.reads.stats import stats
from trellis_jobs.cli.running import collect_rarely
from trellis_jobs.contract.topology import Topology
from trellis_jobs.jetstream.connection import Connection
from trellis_jobs.jetstream.log_feed import LogFeed, Place
from trellis_jobs.jetstream.provision import provision
from trellis_jobs.jetstream.server import detect_features
from trellis_jobs.model.states import JobState

Say = Callable[[str], None]
MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Size:
    rounds: int
    jobs: int
    listed: int
    asked: int


@dataclass(frozen=True, slots=True)
class Rate:
    """`cpu_microseconds` are of one event, and of this process only: the server has its own."""

    events_per_second: float
    cpu_microseconds: float


USUAL: Final = Size(rounds=3, jobs=30_000, listed=10_000, asked=200)
QUICK: Final = Size(rounds=1, jobs=200, listed=300, asked=5)
LARGE: Final = Size(rounds=1, jobs=MILLION // projected_log.EVENTS_A_JOB, listed=MILLION, asked=200)


def measure(url: str, size: Size, say: Say) -> Report:
    collect_rarely()
    with tempfile.TemporaryDirectory() as folder:
        return uvloop.run(_measure(url, size, Path(folder), say))


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
    return {
        "events": size.jobs * projected_log.EVENTS_A_JOB,
        "rates": {name: asdict(rate) for name, rate in medians.items()},
        "ratio": projector.events_per_second / bare.events_per_second,
        "cpu_ratio": bare.cpu_microseconds / projector.cpu_microseconds,
        "seconds_for_a_million": MILLION / medians["rebuild"].events_per_second,
        "listed": size.listed,
        "milliseconds": await _reads(folder / "listed.sqlite", size),
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
    async for batch in feed.up_to(Place(), extent.last_sequence):
        events += len(batch)
    return events


async def _project(feed: LogFeed, folder: Path) -> int:
    """As the daemon does that was down for a while: into a file that is being read."""
    events, extent = 0, await feed.extent()
    async with Projection.open(folder / "jobs.sqlite") as projection:
        intake = Intake(projection, Place(created=extent.created))
        async for batch in feed.up_to(intake.place, extent.last_sequence):
            await intake.take_in(batch)
            events += len(batch)
    return events


async def _rebuild(feed: LogFeed, folder: Path) -> int:
    return (await rebuild(folder / "jobs.sqlite", feed)).messages


async def _reads(path: Path, size: Size) -> Report:
    await _fill(path, size.listed)
    async with Readers.open(path) as readers:
        return {
            name: await _latencies(ask, readers, size.asked)
            for name, ask in _questions(size.listed)
        }


async def _fill(path: Path, jobs: int) -> None:
    """Rows without a log: every job is over."""
    async with Projection.open(path, bulk=True) as projection:
        for first in range(0, jobs, 10_000):
            changes = Changes(Place(sequence=3 * (first + 10_000)))
            for number in range(first, min(first + 10_000, jobs)):
                sequence = 1 + projected_log.EVENTS_A_JOB * number
                job = projected_log.folded(number, sequence)
                changes.jobs[job.address] = JobRow(
                    sequence, job, sequence + 2, microseconds(job.updated_at)
                )
                changes.begun.append((sequence, job.payload))
            await projection.apply(changes)
        await projection.add_indexes()
        await projection.seal()


Ask = Callable[[Readers, int], Awaitable[Any]]


def _questions(jobs: int) -> list[tuple[str, Ask]]:
    """Each is asked about something else every time."""
    moment = projected_log.BEGIN

    def listing(wanted: Callable[[int], JobFilter], offset: int = 0) -> Ask:
        return lambda readers, n: reads.page(readers, wanted(n), offset=offset, limit=50)

    some = projected_log.address
    recent = moment + timedelta(milliseconds=10 * jobs) - timedelta(seconds=10)
    return [
        ("get", lambda readers, n: reads.find(readers, some(n * 37 % jobs).job_id)),
        ("newest", listing(lambda _: JobFilter())),
        ("page 100", listing(lambda _: JobFilter(), offset=min(5_000, jobs // 2))),
        ("one state", listing(lambda _: JobFilter(states=[JobState.FAILED]))),
        ("several states", listing(lambda _: JobFilter(states=[JobState.FAILED, JobState.DEAD]))),
        ("service", listing(lambda n: JobFilter(service=some(n).service))),
        ("type", listing(lambda n: JobFilter(type=some(n).job_type))),
        (
            "service, type, state",
            listing(
                lambda n: JobFilter(
                    service=some(n).service, type=some(n).job_type, states=[JobState.FAILED]
                )
            ),
        ),
        ("since", listing(lambda n: JobFilter(since=recent + timedelta(milliseconds=n)))),
        (
            "until",
            listing(lambda n: JobFilter(until=moment + timedelta(seconds=10, milliseconds=n))),
        ),
        ("id prefix", listing(lambda n: JobFilter(id_prefix=some(n * 37 % jobs).job_id[:-2]))),
        ("payload value", listing(lambda n: JobFilter(payload={"customer": n % 1000}))),
        ("error text", listing(lambda n: JobFilter(error=f"UPSTREAM {n % 50}"))),
        ("services", lambda readers, _: services(readers, now=moment, offset=0, limit=50)),
        ("stats", lambda readers, _: stats(readers, now=moment)),
    ]


async def _latencies(ask: Ask, readers: Readers, times: int) -> dict[str, float]:
    took = []
    for number in range(times):
        began = time.perf_counter()
        await ask(readers, number)
        took.append((time.perf_counter() - began) * 1e3)
    cuts = statistics.quantiles(took, n=100, method="inclusive")
    return {"p50": cuts[49], "p99": cuts[98]}


def table(measured: Report) -> Group:
    rates = Table("", "events/s", "CPU µs an event", title=f"{measured['events']:,} events")
    for name, rate in measured["rates"].items():
        rates.add_row(name, f"{rate['events_per_second']:,.0f}", f"{rate['cpu_microseconds']:.1f}")
    rates.add_row("projector / bare", f"{measured['ratio']:.2f}", f"{measured['cpu_ratio']:.2f}")
    rates.add_row("rebuild of a million, s", f"{measured['seconds_for_a_million']:.0f}")
    asked = Table("", "p50 ms", "p99 ms", title=f"{measured['listed']:,} jobs")
    for name, took in measured["milliseconds"].items():
        asked.add_row(name, f"{took['p50']:.2f}", f"{took['p99']:.2f}")
    return Group(rates, asked)
