"""What a total limit costs: a drain with `total_concurrency` beside one with a limit per queue.

Both have the same number of slots. The queues are drained in order, or by weights.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from rich.console import Group
from rich.table import Table

from benchmarks.measure import Entries, Measured, Stopwatch
from benchmarks.report import Report, Say, compare_steps, messages
from benchmarks.stage import MeteredStage, Step
from benchmarks.traffic import Traffic
from benchmarks.workload import Invoice, Receipt
from trellis_jobs import ActiveJob, Jobs, Service, Workers, job

SERVICE: Final = "bench-total"
SLOTS: Final = 99


class TotalJobs(Jobs, service=SERVICE):
    first = job(Invoice, Receipt, concurrency=SLOTS)
    second = job(Invoice, Receipt, concurrency=SLOTS)
    third = job(Invoice, Receipt, concurrency=SLOTS)


ONE: Final = ("first",)
THREE: Final = ("first", "second", "third")


@dataclass(frozen=True, slots=True)
class Size:
    rounds: int
    jobs: int


USUAL: Final = Size(rounds=5, jobs=9_000)
QUICK: Final = Size(rounds=1, jobs=150)


@dataclass(frozen=True, slots=True)
class Limited:
    """A drain with a total limit. With weights the first queue gets three jobs of five."""

    title: str
    queues: tuple[str, ...]
    weights: bool = False

    @property
    def with_total(self) -> Workers:
        if self.weights:
            return Workers(dict(zip(self.queues, (3, 1, 1), strict=True)), total_concurrency=SLOTS)
        return Workers(self.queues, total_concurrency=SLOTS)

    @property
    def without_total(self) -> Workers:
        return Workers(self.queues, concurrency=SLOTS // len(self.queues))


ROWS: Final = (
    Limited("one queue", ONE),
    Limited("three queues in order", THREE),
    Limited("three queues by weights", THREE, weights=True),
)


def measure(url: str, traffic: Traffic, size: Size, say: Say) -> Report:
    """The two sides take turns at going first, which meets a quieter server."""
    drains: dict[str, tuple[list[Step], list[Step]]] = {row.title: ([], []) for row in ROWS}
    with MeteredStage(url, traffic, processes=1) as stage:
        for number in range(size.rounds):
            for row in ROWS:
                say(f"round {number + 1} of {size.rounds}: {row.title}")
                sides = list(
                    zip(drains[row.title], (row.without_total, row.with_total), strict=True)
                )
                for steps, workers in reversed(sides) if number % 2 else sides:
                    steps.append(_drain(stage, row.queues, workers, size.jobs))
    return {
        **asdict(size),
        "slots": SLOTS,
        "drains": {title: compare_steps(*sides) for title, sides in drains.items()},
    }


def _drain(stage: MeteredStage, queues: tuple[str, ...], workers: Workers, jobs: int) -> Step:
    stage.do(create, queues, jobs)
    stage.until_queued(jobs)
    return stage.step(SERVICE, lambda: stage.do(drain, workers, jobs))


async def create(url: str, queues: tuple[str, ...], jobs: int) -> Measured:
    """As many in each queue; all jobs have different numbers."""
    service = Service(TotalJobs)
    async with service.connect(url, workers=False):
        watch = Stopwatch()
        for place, name in enumerate(queues):
            numbers = range(place, jobs, len(queues))
            await getattr(service.jobs, name).create_many(Invoice(number=n) for n in numbers)
        return watch.stop(jobs)


async def drain(url: str, workers: Workers, jobs: int) -> Measured:
    """Work until `jobs` are done."""
    service, entries = Service(TotalJobs), Entries(jobs)

    async def handle(job: ActiveJob[Invoice]) -> Receipt:
        entries.enter(job.payload.number)
        return Receipt(number=job.payload.number)

    for name in THREE:
        getattr(service.jobs, name).handle(handle)
    async with service.connect(url, workers=workers):
        await entries.all_entered()
        await service.stop()
        return entries.stop()


def table(measured: Report) -> Group:
    shown = Table(
        "drain",
        *("without/s", "with/s", "ratio", "messages a job", "CPU µs a job"),
        title=f"total_concurrency={measured['slots']}: {measured['jobs']} jobs, "
        f"medians of {measured['rounds']} rounds",
    )
    for title, compared in measured["drains"].items():
        without, limited = compared["ceiling"], compared["ours"]
        shown.add_row(
            title,
            f"{without['jobs_per_second']:,.0f}",
            f"{limited['jobs_per_second']:,.0f}",
            f"{compared['ratio']:.2f}",
            f"{messages(without)} → {messages(limited)}",
            f"{without['cpu_microseconds']:.0f} → {limited['cpu_microseconds']:.0f}",
        )
    return Group(shown)
