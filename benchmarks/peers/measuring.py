"""One measurement of each kind: how the work is arranged, and the figures that come of it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from benchmarks.peers.cells import Cell, Measure, ideal_seconds
from benchmarks.peers.contestants import Contestant
from benchmarks.peers.figures import Figure, Figures
from benchmarks.peers.moments import Column
from benchmarks.peers.orders import Done, Order
from benchmarks.peers.stage import Stage, staged
from benchmarks.peers.trial import Broker, Trial
from benchmarks.peers.usage import CpuSeconds

LOOK: Final = 0.05
KEEN_LOOK: Final = 0.005


def measure(contestant: Contestant, cell: Cell, jobs: int) -> Figures:
    with staged(contestant, partial(_trial, contestant, cell, jobs)) as stage:
        stage.start_producer()
        return _MEASURES[cell.measure](stage)


def _trial(
    contestant: Contestant, cell: Cell, jobs: int, moments: str, addresses: dict[Broker, str]
) -> Trial:
    return Trial(
        tool=contestant.name,
        mode=cell.mode,
        jobs=jobs,
        seconds=cell.seconds,
        processes=cell.processes,
        concurrency=cell.concurrency,
        moments=moments,
        addresses=addresses,
    )


def _enqueue(stage: Stage, order: Order) -> Figures:
    stage.order(Order.WARM_UP)
    watch = _Watch(stage)
    done = stage.order(order)
    return {
        Figure.JOBS_PER_SECOND: stage.trial.jobs / done.seconds,
        Figure.PRODUCER_CPU: done.cpu / stage.trial.jobs * 1e6,
        Figure.OTHERS_CORES: watch.stop(done).others,
    }


def _drain(stage: Stage) -> Figures:
    """Of a full queue, from the first handler's first line to the last one's last."""
    stage.order(Order.MANY)
    stage.order(Order.PREPARE_DRAIN)
    stage.start_workers()
    watch = _Watch(stage)
    stage.until(partial(_has_begun, stage, watch), KEEN_LOOK)
    _until_all_left(stage)
    used = watch.stop()
    began = min(stage.moments.of(Column.ENTERED))
    seconds = (max(stage.moments.of(Column.LEFT)) - began) / 1e9
    megabytes = stage.worker_megabytes()
    settled = stage.order(Order.SETTLE)
    return {
        **_worked(stage, seconds, used),
        Figure.WORKER_MEGABYTES: megabytes,
        Figure.SETTLED_SECONDS: (settled.ended - began) / 1e9,
    }


def _drain_waiting(stage: Stage) -> Figures:
    figures = _drain(stage)
    ideal = ideal_seconds(stage.trial.jobs)
    return {**figures, Figure.TIMES_IDEAL: figures[Figure.SECONDS] / ideal}


def _end_to_end(stage: Stage) -> Figures:
    """Enqueued while a worker waits for jobs: from the first call to the last handler's end."""
    _warm_up(stage)
    watch = _Watch(stage)
    stage.give(Order.MANY)
    _until_all_left(stage)
    done = stage.answer()
    used = watch.stop(done)
    seconds = (max(stage.moments.of(Column.LEFT)) - done.began) / 1e9
    return _worked(stage, seconds, used)


def _pick_up(stage: Stage) -> Figures:
    """One job at a time, the worker idle: from the call that enqueues to the handler."""
    _warm_up(stage)
    watch = _Watch(stage)
    done = stage.order(Order.PACED)
    _until_all_left(stage)
    others = watch.stop(done).others
    asked, entered = stage.moments.of(Column.ASKED), stage.moments.of(Column.ENTERED)
    waits = [(end - begin) / 1e6 for begin, end in zip(asked, entered, strict=True)]
    cuts = statistics.quantiles(waits, n=100, method="inclusive")
    return {
        Figure.PICKUP_P50: cuts[49],
        Figure.PICKUP_P99: cuts[98],
        Figure.OTHERS_CORES: others,
    }


_MEASURES: Final[dict[Measure, Callable[[Stage], Figures]]] = {
    Measure.ONE_BY_ONE: partial(_enqueue, order=Order.ONE_BY_ONE),
    Measure.MANY: partial(_enqueue, order=Order.MANY),
    Measure.DRAIN: _drain,
    Measure.END_TO_END: _end_to_end,
    Measure.PICKUP: _pick_up,
    Measure.WAITING: _drain_waiting,
}


class _Watch:
    """What was used since `restart`, by whom, and how much by others who have no part in it."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.restart()

    def restart(self) -> None:
        self._cpu = self._stage.cpu()
        self._own = time.process_time()
        self._began = time.monotonic()

    def stop(self, producer: Done | None = None) -> _Used:
        seconds = time.monotonic() - self._began
        used = self._stage.cpu().since(self._cpu)
        own = time.process_time() - self._own + (producer.cpu if producer else 0.0)
        others = used.busy - used.workers - used.servers - own
        return _Used(used, max(0.0, others) / seconds)


@dataclass(frozen=True, slots=True)
class _Used:
    cpu: CpuSeconds
    others: float  # cores


def _worked(stage: Stage, seconds: float, used: _Used) -> Figures:
    jobs = stage.trial.jobs
    return {
        Figure.JOBS_PER_SECOND: jobs / seconds,
        Figure.SECONDS: seconds,
        Figure.WORKER_CPU: used.cpu.workers / jobs * 1e6,
        Figure.SERVER_CPU: used.cpu.servers / jobs * 1e6,
        Figure.OTHERS_CORES: used.others,
        Figure.RUN_TWICE: sum(entries > 1 for entries in stage.moments.of(Column.ENTRIES)),
    }


def _has_begun(stage: Stage, watch: _Watch) -> bool:
    """The watch runs from the last look before, so that starting up does not count."""
    if stage.moments.count(Column.ENTERED):
        return True
    watch.restart()
    return False


def _until_all_left(stage: Stage) -> None:
    def all_left() -> bool:
        return stage.moments.count(Column.LEFT) == stage.trial.jobs

    stage.until(all_left, LOOK)


def _warm_up(stage: Stage) -> None:
    """One job has gone all the way."""
    stage.order(Order.WARM_UP)
    stage.start_workers()
    stage.until(lambda: stage.moments.of_warm_up(Column.LEFT) > 0, LOOK)
