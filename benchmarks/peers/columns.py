"""One column of a report, or one panel of a chart: which figure of which cell."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.peers.cells import Cell
from benchmarks.peers.figures import Figure
from benchmarks.peers.summary import Spread, Summary


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    cell: Cell
    figure: Figure
    digits: int = 0

    @property
    def less_is_better(self) -> bool:
        return self.figure is not Figure.JOBS_PER_SECOND

    def of(self, contestant: str, summary: Summary) -> Spread | None:
        return summary.of(contestant, self.cell, self.figure)

    def shown(self, value: float) -> str:
        return f"{value:,.{self.digits}f}"
