"""Workers: their memory over many jobs, many handlers that wait, and two processes beside one."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Final

import uvloop

from benchmarks.peers.usage import cpu_of
from benchmarks.report import Report, Say
from benchmarks.scale.rates import medians
from benchmarks.scale.server import observed_server, prepare
from benchmarks.scale.sheets import Sheet, megabytes, sheet
from benchmarks.scale.shifts import LOOKS, Load, Shift, create_many, work
from benchmarks.scale.size import Size
from benchmarks.stage import Stage
from benchmarks.workload import CONCURRENCY
from trellis_jobs.embedded import EmbeddedServer

SLEEP: Final = 0.1
SLEEPING_AT_ONCE: Final = 200


@dataclass(frozen=True, slots=True)
class Done:
    """Processes begin and end at different moments: a rate is that of the time they all worked."""

    shifts: list[Shift]
    server_cpu_seconds: float

    @property
    def seconds(self) -> float:
        """From the first handler that was entered to the last that was left."""
        return max(shift.left[-1] for shift in self.shifts) - min(s.began for s in self.shifts)

    def figures(self) -> dict[str, float]:
        jobs = sum(len(shift.left) for shift in self.shifts)
        rate = self._together()
        return {
            "jobs_per_second": rate,
            "worker_cores": sum(shift.cpu_seconds for shift in self.shifts) / jobs * rate,
            "server_cores": self.server_cpu_seconds / jobs * rate,
        }

    def _together(self) -> float:
        began = max(shift.began for shift in self.shifts)
        ended = min(shift.left[-1] for shift in self.shifts)
        within = sum(began <= moment <= ended for shift in self.shifts for moment in shift.left)
        return within / (ended - began)


class Workers:
    def __init__(self, server: EmbeddedServer, stage: Stage) -> None:
        self._server = server
        self._stage = stage

    def done_by(self, processes: int, load: Load) -> Done:
        """All jobs wait before the first process begins."""
        stage, last = self._stage, self._stage.queued_so_far() + load.jobs
        stage.do(create_many, load.jobs, load.at_once)
        stage.until_queued(load.jobs)
        before = cpu_of([self._server.pid])
        working = [stage.begin(work, last, load, processes) for _ in range(processes)]
        shifts = [process.result() for process in working]
        return Done(shifts, cpu_of([self._server.pid]) - before)


def measure(size: Size, say: Say) -> Report:
    with observed_server() as server:
        uvloop.run(prepare(server.url))
        stage = Stage(server.url, processes=3)
        with stage:
            workers = Workers(server, stage)
            say(f"workers: {size.sleeping:,} jobs of {SLEEP * 1e3:.0f} ms")
            sleeping = _sleeping(workers, size)
            say("workers: one process and two")
            scaling = [_scaling(workers, load, size.rounds) for load in _loads(size.shared)]
            say(f"workers: memory over {size.steady:,} jobs")
            [steady] = workers.done_by(1, Load(size.steady, CONCURRENCY)).shifts
    return {
        "sleeping": sleeping,
        "scaling": scaling,
        "steady": {"jobs": size.steady, "resident": steady.resident},
    }


def sheets(found: Report) -> list[Sheet]:
    sleeping, steady = found["sleeping"], found["steady"]
    taken = steady["resident"]
    return [
        sheet(
            "one-worker",
            "one worker process",
            ("", "found", "aim"),
            (
                (
                    f"{sleeping['jobs']:,} jobs of 100 ms, {SLEEPING_AT_ONCE} at once",
                    f"{sleeping['seconds']:.2f} s, {sleeping['ratio']:.2f} × the ideal",
                    "1.15 ×",
                ),
                (
                    f"memory after {steady['jobs'] // LOOKS:,} and after {steady['jobs']:,} jobs",
                    f"{megabytes(taken[0])}, {megabytes(taken[-1])}",
                    "the same",
                ),
            ),
        ),
        _scaling_sheet(found["scaling"]),
    ]


def _scaling_sheet(found: list[Report]) -> Sheet:
    return sheet(
        "two-workers",
        "worker processes",
        (
            "a handler",
            "one, jobs/s",
            "two, jobs/s",
            "ratio",
            "cores of the workers",
            "cores of the server",
        ),
        (
            (
                row["title"],
                f"{row['one']['jobs_per_second']:,.0f}",
                f"{row['two']['jobs_per_second']:,.0f}",
                f"{row['ratio']:.2f}",
                *(
                    f"{row['one'][cores]:.2f} → {row['two'][cores]:.2f}"
                    for cores in ("worker_cores", "server_cores")
                ),
            )
            for row in found
        ),
    )


def _loads(jobs: int) -> list[Load]:
    kinds = ((CONCURRENCY, 0.0), (10, 0.005), (10, 0.01))
    return [Load(jobs, at_once, pause, begins_together=True) for at_once, pause in kinds]


def _sleeping(workers: Workers, size: Size) -> Report:
    load = Load(size.sleeping, SLEEPING_AT_ONCE, SLEEP)
    ideal = load.jobs * load.pause / load.at_once
    took = statistics.median(workers.done_by(1, load).seconds for _ in range(size.rounds))
    return {"jobs": load.jobs, "seconds": took, "ideal": ideal, "ratio": took / ideal}


def _scaling(workers: Workers, load: Load, rounds: int) -> Report:
    turns = [[workers.done_by(n, load).figures() for n in (1, 2)] for _ in range(rounds)]
    one, two = (medians([turn[which] for turn in turns]) for which in (0, 1))
    ratio = two["jobs_per_second"] / one["jobs_per_second"]
    return {"title": load.title(), "one": one, "two": two, "ratio": ratio}
