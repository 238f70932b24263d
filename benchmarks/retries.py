"""How late retries and takeovers of dead workers start on a queue on which every job fails once.

The workers send the NAKs of failed tries at once, and in bursts. In each run all of them do the
same, and the runs take turns. Each run has its own server.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from rich.table import Table

from benchmarks import retry_actors as actors
from benchmarks.peers.usage import cpu_of, cpu_seconds
from benchmarks.report import Report, Say
from benchmarks.stage import Stage
from benchmarks.traffic import MONITORED, Traffic
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.nak_timing import BURST_INTERVAL

SERVERS: Final = Path(__file__).parent.parent / ".servers"
SIDES: Final = {"at once": 0.0, "in bursts": BURST_INTERVAL}
_UNANSWERED_PER_SECOND: Final = 5


@dataclass(frozen=True, slots=True)
class Size:
    """`seconds`: for how long retries and first tries overlap."""

    rate: int
    seconds: float
    processes: tuple[int, ...]
    delays: tuple[float, ...]


USUAL: Final = Size(rate=1_000, seconds=10, processes=(1, 4), delays=(0.5, 5, 30))
QUICK: Final = Size(rate=50, seconds=1, processes=(1,), delays=(0.5,))


@dataclass(frozen=True, slots=True)
class Run:
    processes: int
    delay: float
    side: str


def measure(size: Size, version: str | None, say: Say) -> Report:
    runs = [
        Run(processes, delay, side)
        for processes in size.processes
        for delay in size.delays
        for side in SIDES
    ]
    measured = []
    for number, run in enumerate(runs, 1):
        say(f"{number} of {len(runs)}: {run.processes} processes, {run.delay} s, {run.side}")
        measured.append(asdict(run) | _measure(run, size, version))
    return {**asdict(size), "server": measured[-1]["server"], "runs": measured}


def _measure(run: Run, size: Size, version: str | None) -> Report:
    binary = None if version is None else SERVERS / version / "nats-server"
    seconds = size.seconds + run.delay
    jobs, queue = int(size.rate * seconds), actors.QUEUES[run.delay]
    began, cpu_before = time.monotonic(), cpu_seconds([os.getpid()], [])
    with EmbeddedServer.start(binary=binary, config=MONITORED) as server:
        traffic = Traffic(server.store)
        with Stage(server.url, run.processes + 2) as stage:
            stage.do(actors.prepare, queue)
            working = stage.append_first_many(
                run.processes, actors.SERVICE, queue, actors.work, queue, jobs, SIDES[run.side]
            )
            dying = stage.begin(
                actors.leave_unanswered, queue, _UNANSWERED_PER_SECOND, size.seconds
            )
            stage.until_awaited(actors.SERVICE, queue, [*working, dying])
            creating = stage.begin(actors.create, queue, size.rate, jobs)
            creating.result()
            cpu = sum(worker.result().cpu_seconds for worker in working)
            server_cpu = cpu_of([server.pid])
            late = stage.do(actors.read_lateness, dying.result())
        messages = traffic.so_far(f"{actors.SERVICE} jobs")
        used = cpu_seconds([os.getpid()], []).since(cpu_before)
        return {
            "server": traffic.server_version(),
            "jobs": jobs,
            "retries": _percentiles(late.retries),
            "takeovers": _percentiles(late.takeovers),
            "sent": messages.sent / jobs,
            "received": messages.received / jobs,
            "cpu_microseconds": cpu / jobs * 1e6,
            "server_cpu_microseconds": server_cpu / jobs * 1e6,
            "other_cores": (used.busy - used.workers) / (time.monotonic() - began),
        }


def _percentiles(late: list[float]) -> Report:
    if not late:
        return {"count": 0, "p50": None, "p99": None, "longest": None}
    ranked = sorted(late)
    return {
        "count": len(ranked),
        "earliest": ranked[0],
        "p50": ranked[len(ranked) // 2],
        "p99": ranked[min(len(ranked) - 1, len(ranked) * 99 // 100)],
        "longest": ranked[-1],
    }


def table(measured: Report) -> Table:
    shown = Table(
        *("processes", "delay", "NAKs sent"),
        *("retries late, ms: p50", "p99", "longest"),
        *("takeovers late, ms: p50", "p99", "longest"),
        *("messages a job", "CPU µs a job", "server µs a job", "others, cores"),
        title=f"{measured['rate']} failing jobs/s, nats-server {measured['server']}",
    )
    for run in measured["runs"]:
        shown.add_row(
            str(run["processes"]),
            f"{run['delay']:g} s",
            run["side"],
            *_milliseconds(run["retries"]),
            *_milliseconds(run["takeovers"]),
            f"{run['sent'] + run['received']:.2f}",
            f"{run['cpu_microseconds']:.0f}",
            f"{run['server_cpu_microseconds']:.0f}",
            f"{run['other_cores']:.1f}",
        )
    return shown


def _milliseconds(late: Report) -> list[str]:
    ranks = [late[rank] for rank in ("p50", "p99", "longest")]
    return ["-" if rank is None else f"{rank * 1e3:,.0f}" for rank in ranks]
