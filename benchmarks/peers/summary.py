"""Medians over the rounds, and how far the rounds lie apart."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.peers.cells import SAME_FOR_OURS, Cell
from benchmarks.peers.contestants import OURS
from benchmarks.peers.figures import Figure, Measurement


@dataclass(frozen=True, slots=True)
class Spread:
    median: float
    least: float
    most: float

    @property
    def share(self) -> float:
        """Half the way between the extremes, as a share of the median."""
        return (self.most - self.least) / 2 / self.median if self.median else 0.0


class Summary:
    def __init__(self, measurements: Iterable[Measurement]) -> None:
        done = [one for one in measurements if one.failed is None]
        self.rounds = len({one.round for one in done})
        self.contestants = list(dict.fromkeys(one.contestant for one in done))
        self._values: dict[tuple[str, str, Figure], list[float]] = defaultdict(list)
        for one in done:
            for figure, value in one.figures.items():
                self._values[one.contestant, one.cell, figure].append(value)

    def of(self, contestant: str, cell: Cell, figure: Figure) -> Spread | None:
        """None when there is no figure."""
        place = SAME_FOR_OURS.get(cell, cell) if contestant == OURS else cell
        values = self._values.get((contestant, place.name, figure))
        if not values:
            return None
        return Spread(statistics.median(values), min(values), max(values))

    def most(self, figure: Figure) -> float:
        """In any cell, of anybody."""
        found = [values for (_, _, kind), values in self._values.items() if kind is figure]
        return max((value for values in found for value in values), default=0.0)
