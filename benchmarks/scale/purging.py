"""Retention beside running work, and what a log weighs from which most jobs were purged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import asdict
from typing import Final

import uvloop

from benchmarks import ours
from benchmarks.measure import Drained, Stopwatch
from benchmarks.report import Report, Say
from benchmarks.scale.filling import KINDS, address, fill
from benchmarks.scale.server import observed_server, restart, weigh
from benchmarks.scale.sheets import Sheet, megabytes, sheet
from benchmarks.scale.size import Size
from benchmarks.scale.sweeping import sweep
from benchmarks.stage import Stage, connected
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.log.purge import purge_job

STREAM, BACKLOG = "stream", "backlog"
TITLES: Final = {
    STREAM: "jobs that are created meanwhile",
    BACKLOG: "jobs that were all created before",
}
RATES: Final = ("alone", "projected", "purged")
ONE_STAYS_OF: Final = 10
PURGING_AT_ONCE: Final = 50
SYNC_SECONDS: Final = 3
STEADY_LOOKS: Final = 3
OFTEN_SYNCED: Final = f"jetstream {{ sync_interval: {SYNC_SECONDS}s }}\n"
_NEWEST: Final = 2**62  # nothing else is written meanwhile


def measure(size: Size, say: Say) -> Report:
    beside = {}
    for kind, title in TITLES.items():
        say(f"purging: {size.due:,} jobs, beside {title}")
        with observed_server() as server, Stage(server.url, processes=3) as stage:
            beside[kind] = _beside_work(stage, size, kind)
    say(f"purging: {ONE_STAYS_OF - 1} of {ONE_STAYS_OF} of {size.stored:,} jobs")
    return {"due": size.due, "beside": beside, "stored": size.stored, **_thinned(size.stored)}


def sheets(found: Report) -> list[Sheet]:
    return [
        sheet(
            "purging",
            f"work while {found['due']:,} jobs are purged; jobs a second",
            ("work", "alone", "beside a projector", "beside retention", "ratio", "purged a second"),
            (
                (
                    TITLES[kind],
                    *(f"{one[name]:,.0f}" if one[name] else "–" for name in RATES),
                    f"{one['purged'] / one['alone']:.2f}",
                    f"{one['swept']:,.0f}",
                )
                for kind, one in found["beside"].items()
            ),
        ),
        sheet(
            "purged",
            f"{found['stored']:,} jobs, of which one in {ONE_STAYS_OF} stays",
            ("the server", "heap", "disk"),
            (
                (
                    title,
                    megabytes(found[name]["weight"]["heap"]),
                    megabytes(sum(found[name]["weight"]["disk"].values())),
                )
                for name, title in (("full", "before"), ("thin", "with one job in ten left"))
            ),
        ),
    ]


def _beside_work(stage: Stage, size: Size, kind: str) -> dict[str, float]:
    """Jobs a second of a worker alone, beside a projector, and while jobs are purged, and those."""
    uvloop.run(fill(stage.url, 0, size.due))
    ended_before = time.time()
    alone = _begin_work(stage, kind, size.rated).result().measured
    last = stage.queued_so_far() + size.beside
    working = _begin_work(stage, kind, size.beside)
    swept = stage.do(sweep, ended_before, last)
    drained = working.result()
    end = drained.measured.ended
    return {
        "alone": alone.jobs / alone.seconds,
        "projected": _entered(drained, swept.ended, end),
        "purged": _entered(drained, swept.began, min(swept.ended, end)),
        "swept": swept.jobs / (swept.ended - swept.began),
    }


def _begin_work(stage: Stage, kind: str, jobs: int) -> Future[Drained]:
    """Either all jobs are there before, or they are created all the time."""
    if kind == BACKLOG:
        stage.do(ours.create_many, jobs)
        stage.until_queued(jobs)
        return stage.begin(ours.drain, jobs)
    stage.begin(ours.create_one_by_one, jobs)
    return stage.begin(ours.drain, jobs)


def _entered(drained: Drained, began: float, ended: float) -> float:
    """A second, between two moments; none if the work was over before."""
    if ended <= began:
        return 0.0
    return sum(began <= moment < ended for moment in drained.entered.values()) / (ended - began)


def _thinned(jobs: int) -> Report:
    with observed_server(OFTEN_SYNCED) as server:
        uvloop.run(fill(server.url, 0, jobs))
        full = restart(server)
        purges = uvloop.run(_thin(server.url, jobs))
        _until_compacted(server)
        thin = restart(server)
    return {"purges_per_second": purges, "full": asdict(full), "thin": asdict(thin)}


def _until_compacted(server: EmbeddedServer) -> None:
    """The server compacts when it syncs: until that has changed nothing twice."""
    sizes = [weigh(server).on_disk]
    while len(sizes) < STEADY_LOOKS or len(set(sizes[-STEADY_LOOKS:])) > 1:
        time.sleep(SYNC_SECONDS)
        sizes.append(weigh(server).on_disk)


async def _thin(url: str, jobs: int) -> float:
    """Purges a second, as retention asks for them; the jobs that stay are spread evenly."""
    leaving = iter([number for number in range(jobs) if number % ONE_STAYS_OF])
    async with connected(url) as connection:
        watch = Stopwatch()
        lanes = [_purge_all(connection, leaving) for _ in range(PURGING_AT_ONCE)]
        purged = sum(await asyncio.gather(*lanes))
        return purged / len(KINDS) / watch.stop(purged).seconds


async def _purge_all(connection: Connection, numbers: Iterator[int]) -> int:
    return sum([await purge_job(connection, address(n), up_to=_NEWEST) for n in numbers])
