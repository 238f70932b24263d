"""What we aim at, and how far we are: ours against the best of the peers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from benchmarks.peers import cells
from benchmarks.peers.cells import Cell
from benchmarks.peers.contestants import OURS
from benchmarks.peers.figures import Figure
from benchmarks.peers.summary import Summary

IDEAL: Final = ("the ideal", 1.0)


@dataclass(frozen=True, slots=True)
class Target:
    """To be `times` as good as the best peer, or as what nothing can be better than."""

    name: str
    cell: Cell
    figure: Figure
    times: float
    against_ideal: bool = False


RATE: Final = Figure.JOBS_PER_SECOND
TARGETS: Final = (
    Target("create one by one", cells.ONE_BY_ONE, RATE, 1.0),
    Target("create many", cells.MANY, RATE, 3.0),
    Target("drain, peers lean", cells.DRAIN_LEAN, RATE, 1.0),
    Target("drain, peers full", cells.DRAIN_FULL, RATE, 3.0),
    Target("end to end, peers lean", cells.END_TO_END_LEAN, RATE, 1.0),
    Target("end to end, peers full", cells.END_TO_END_FULL, RATE, 3.0),
    Target("pickup p99, ms", cells.PICKUP, Figure.PICKUP_P99, 1.0),
    Target("100 ms jobs, ideal = 1", cells.WAITING, Figure.TIMES_IDEAL, 1 / 1.15, True),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    target: Target
    ours: float
    rival: str
    rivals: float

    @property
    def ratio(self) -> float:
        """How many times as good ours is."""
        more_is_better = self.target.figure is RATE
        return self.ours / self.rivals if more_is_better else self.rivals / self.ours

    @property
    def is_reached(self) -> bool:
        return self.ratio >= self.target.times


def judge(summary: Summary) -> list[Verdict]:
    """Of the targets for which both sides have been measured."""
    found = (_verdict(summary, target) for target in TARGETS)
    return [verdict for verdict in found if verdict is not None]


def _verdict(summary: Summary, target: Target) -> Verdict | None:
    ours = summary.of(OURS, target.cell, target.figure)
    rival = IDEAL if target.against_ideal else _best_peer(summary, target)
    if ours is None or rival is None:
        return None
    return Verdict(target, ours.median, *rival)


def _best_peer(summary: Summary, target: Target) -> tuple[str, float] | None:
    """The name and its median."""
    medians = [
        (name, spread.median)
        for name in summary.contestants
        if name != OURS and (spread := summary.of(name, target.cell, target.figure))
    ]
    best = max if target.figure is RATE else min
    return best(medians, key=lambda one: one[1], default=None)
