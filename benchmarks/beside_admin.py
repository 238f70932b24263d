"""Running work with an admin runtime beside it and without one, in turns on fresh servers."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, astuple, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import uvloop
from rich.table import Table

from benchmarks.keyed import KeyedJobs, create_many
from benchmarks.measure import now
from benchmarks.peers.usage import cpu_of
from benchmarks.report import Report, Say
from benchmarks.scale.server import observed_server, prepare
from benchmarks.stage import LOOK, Stage, until_over
from benchmarks.traffic import Messages, Traffic
from benchmarks.workload import Invoice, Receipt
from jobs_admin.api.client import AdminClient
from trellis_jobs import ActiveJob, Service, Workers
from trellis_jobs.errors import NoAnswer, ServiceMissing

WORKERS: Final = 2
ADMIN: Final = "jobs admin"


class Admin(StrEnum):
    """`FRESH`: it starts together with the workers, with no projection.

    `CAUGHT_UP`: it has projected every job before the work begins. `ENDED`: the same, but it is
    stopped before the work begins: a server whose log was just read drains more slowly.
    """

    NONE = "none"
    FRESH = "fresh"
    ENDED = "caught up, then stopped"
    CAUGHT_UP = "caught up"


COMPARED: Final = {Admin.FRESH: Admin.NONE, Admin.CAUGHT_UP: Admin.ENDED}


@dataclass(frozen=True, slots=True)
class Size:
    rounds: int
    jobs: int
    keyed: int
    keys: int


USUAL: Final = Size(rounds=3, jobs=200_000, keyed=40_000, keys=1_000)
QUICK: Final = Size(rounds=1, jobs=400, keyed=200, keys=10)


@dataclass(frozen=True, slots=True)
class Worked:
    """What one worker process did: when its first handler was entered and its last was left."""

    began: float
    ended: float
    jobs: int


@dataclass(frozen=True, slots=True)
class Figures:
    """CPU in microseconds a job; messages of the admin runtime a job."""

    jobs_per_second: float
    server_cpu: float
    admin_cpu: float
    admin_sent: float
    admin_received: float


async def work(url: str, last: int, keys: int) -> Worked:
    """Until the work queue has had its message number `last`, and is empty."""
    service = Service(KeyedJobs)
    queue = service.jobs.keyed if keys else service.jobs.unkeyed
    began = ended = 0.0
    jobs = 0

    @queue.handle
    async def handle(job: ActiveJob[Invoice]) -> Receipt:
        nonlocal began, ended, jobs
        ended = now()
        began = began or ended
        jobs += 1
        return Receipt(number=job.payload.number)

    async with service.connect(url, workers=Workers(["keyed" if keys else "unkeyed"])):
        await until_over(url, last)
    return Worked(began, ended, jobs)


def measure(size: Size, say: Say) -> Report:
    """The variants take turns, in another order in every other round."""
    loads = ((size.jobs, 0), (size.keyed, size.keys))
    found: dict[tuple[int, Admin], list[Figures]] = {}
    for number in range(size.rounds):
        for jobs, keys in loads:
            for admin in reversed(Admin) if number % 2 else Admin:
                say(f"round {number + 1} of {size.rounds}: {jobs:,} jobs, admin: {admin}")
                found.setdefault((keys, admin), []).append(_run(admin, jobs, keys))
    return {
        "rounds": size.rounds,
        "loads": [
            {
                "jobs": jobs,
                "keys": keys,
                "variants": {admin: asdict(_median(found[keys, admin])) for admin in Admin},
                "ratios": {
                    admin: _ratio(found[keys, without], found[keys, admin])
                    for admin, without in COMPARED.items()
                },
            }
            for jobs, keys in loads
        ],
    }


def table(measured: Report) -> Table:
    shown = Table(
        *("jobs", "keys", "admin runtime", "jobs/s", "ratio"),
        *("server CPU µs", "admin CPU µs", "admin sent", "admin received"),
        title=f"{WORKERS} workers, medians of {measured['rounds']} rounds; CPU and messages a job",
    )
    for load in measured["loads"]:
        for name, figures in load["variants"].items():
            shown.add_row(
                f"{load['jobs']:,}",
                f"{load['keys']:,}",
                str(name),
                f"{figures['jobs_per_second']:,.0f}",
                f"{load['ratios'].get(name, 1):.2f}",
                f"{figures['server_cpu']:.0f}",
                f"{figures['admin_cpu']:.0f}",
                f"{figures['admin_sent']:.4f}",
                f"{figures['admin_received']:.2f}",
            )
    return shown


def _run(admin: Admin, jobs: int, keys: int) -> Figures:
    with ExitStack() as opened:
        server = opened.enter_context(observed_server())
        uvloop.run(prepare(server.url))
        stage = opened.enter_context(Stage(server.url, processes=WORKERS + 1))
        traffic, admins = Traffic(server.store), list[int]()
        stage.do(create_many, jobs, keys)
        stage.until_queued(jobs)
        if admin in (Admin.CAUGHT_UP, Admin.ENDED):
            serving = opened.enter_context(ExitStack())
            admins.append(serving.enter_context(_serving(server.url)))
            uvloop.run(_until_projected(server.url))
            if admin is Admin.ENDED:
                serving.close()
                admins.clear()
        before = (cpu_of([server.pid]), cpu_of(admins), _admin(traffic))
        if admin is Admin.FRESH:
            admins.append(opened.enter_context(_serving(server.url)))
        working = [stage.begin(work, jobs, keys) for _ in range(WORKERS)]
        worked = [process.result() for process in working]
        after = (cpu_of([server.pid]), cpu_of(admins), _admin(traffic))
    seconds = max(w.ended for w in worked) - min(w.began for w in worked)
    return Figures(
        jobs / seconds,
        (after[0] - before[0]) / jobs * 1e6,
        (after[1] - before[1]) / jobs * 1e6,
        (after[2].sent - before[2].sent) / jobs,
        (after[2].received - before[2].received) / jobs,
    )


@contextmanager
def _serving(url: str) -> Iterator[int]:
    """The command, at its defaults, with a separate projection; yields its process id."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["-m", "jobs_admin.cli", "admin", "serve", "--nats", url]
        process = subprocess.Popen(
            [
                sys.executable,
                *command,
                "--db",
                str(Path(folder) / "jobs.sqlite"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield process.pid
        finally:
            process.kill()
            process.wait()


async def _until_projected(url: str) -> None:
    """Wait until the admin runtime answers, and its projection has every event of the log."""
    async with AdminClient.connect(url) as client:
        while True:
            if await _is_projected(client):
                return
            await asyncio.sleep(LOOK)


async def _is_projected(client: AdminClient) -> bool:
    try:
        projection = (await client.health()).check("projection")
    except (NoAnswer, ServiceMissing):
        return False
    return projection is not None and projection.lag_events == 0


def _admin(traffic: Traffic) -> Messages:
    return traffic.of_open(ADMIN)


def _median(rounds: list[Figures]) -> Figures:
    columns = zip(*(astuple(one) for one in rounds), strict=True)
    return Figures(*(statistics.median(column) for column in columns))


def _ratio(without: list[Figures], beside: list[Figures]) -> float:
    """Of the same round, then the median: what else the machine does changes between rounds."""
    pairs = zip(without, beside, strict=True)
    return statistics.median(two.jobs_per_second / one.jobs_per_second for one, two in pairs)
