"""What is measured: the columns, and how many jobs of which kind each takes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from benchmarks.peers.contestants import Contestant
from benchmarks.peers.trial import Mode

CONCURRENCY: Final = 100
WAITING_CONCURRENCY: Final = 200
WAITING_JOBS: Final = 2_000
WAITING_SECONDS: Final = 0.1
PICKUP_JOBS: Final = 400


class Measure(StrEnum):
    ONE_BY_ONE = "one-by-one"
    MANY = "many"
    DRAIN = "drain"
    END_TO_END = "end-to-end"
    PICKUP = "pickup"
    WAITING = "waiting"


ENQUEUEING: Final = frozenset({Measure.ONE_BY_ONE, Measure.MANY})


@dataclass(frozen=True, slots=True)
class Cell:
    measure: Measure
    mode: Mode = Mode.LEAN
    processes: int = 1

    @property
    def name(self) -> str:
        return f"{self.measure}:{self.mode}:{self.processes}"

    @property
    def seconds(self) -> float:
        return WAITING_SECONDS if self.measure is Measure.WAITING else 0.0

    @property
    def concurrency(self) -> int:
        return WAITING_CONCURRENCY if self.measure is Measure.WAITING else CONCURRENCY


ONE_BY_ONE: Final = Cell(Measure.ONE_BY_ONE)
MANY: Final = Cell(Measure.MANY)
DRAIN_LEAN: Final = Cell(Measure.DRAIN)
DRAIN_FULL: Final = Cell(Measure.DRAIN, Mode.FULL)
DRAIN_FULL_TWICE: Final = Cell(Measure.DRAIN, Mode.FULL, processes=2)
END_TO_END_LEAN: Final = Cell(Measure.END_TO_END)
END_TO_END_FULL: Final = Cell(Measure.END_TO_END, Mode.FULL)
PICKUP: Final = Cell(Measure.PICKUP)
WAITING: Final = Cell(Measure.WAITING)

CELLS: Final = (
    ONE_BY_ONE,
    MANY,
    DRAIN_LEAN,
    DRAIN_FULL,
    DRAIN_FULL_TWICE,
    END_TO_END_LEAN,
    END_TO_END_FULL,
    PICKUP,
    WAITING,
)
# Ours has one mode, so one measurement stands in both columns.
SAME_FOR_OURS: Final = {DRAIN_LEAN: DRAIN_FULL, END_TO_END_LEAN: END_TO_END_FULL}


def is_measured(contestant: Contestant, cell: Cell) -> bool:
    if contestant.is_ours:
        return cell not in SAME_FOR_OURS
    if contestant.only_works and cell.measure in ENQUEUEING:
        return False
    return not _blocks(contestant, cell)


def jobs_of(contestant: Contestant, cell: Cell, at_most: int | None) -> int:
    sizes = contestant.sizes
    usual = {
        Measure.ONE_BY_ONE: sizes.one_by_one,
        Measure.MANY: sizes.many,
        Measure.DRAIN: sizes.drain * cell.processes,
        Measure.END_TO_END: sizes.drain,
        Measure.PICKUP: PICKUP_JOBS,
        Measure.WAITING: WAITING_JOBS,
    }[cell.measure]
    return usual if at_most is None else min(usual, at_most)


def ideal_seconds(jobs: int) -> float:
    """That jobs which only wait take if nothing costs any time."""
    return math.ceil(jobs / WAITING_CONCURRENCY) * WAITING_SECONDS


def _blocks(contestant: Contestant, cell: Cell) -> bool:
    """Processes alone make no concurrency of 200; Celery is measured with gevent there."""
    return contestant.name == "celery-prefork" and cell.measure is Measure.WAITING
