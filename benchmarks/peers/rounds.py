"""Who is measured when: everybody's turn at one cell, then the next cell, then the next round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.peers.cells import Cell, is_measured, jobs_of
from benchmarks.peers.contestants import Contestant
from benchmarks.peers.figures import Figure, Figures, Measurement, Results
from benchmarks.peers.measuring import measure
from benchmarks.peers.processes import Failed

# Places that the order moves on by in each round, so that no tool follows the same one every time.
SHIFT: Final = 4


@dataclass(frozen=True, slots=True)
class Turn:
    round: int
    cell: Cell
    contestant: Contestant


def plan(rounds: int, contestants: Sequence[Contestant], cells: Sequence[Cell]) -> Iterator[Turn]:
    for number in range(rounds):
        first = number * SHIFT % len(contestants)
        order = [*contestants[first:], *contestants[:first]]
        for cell in cells:
            yield from (Turn(number, cell, one) for one in order if is_measured(one, cell))


def run(
    turns: Sequence[Turn], results: Results, at_most: int | None, say: Callable[[str], None]
) -> None:
    for number, turn in enumerate(turns, start=1):
        name, cell = turn.contestant.name, turn.cell.name
        if results.has(turn.round, name, cell):
            continue
        taken = _take(turn, jobs_of(turn.contestant, turn.cell, at_most))
        results.add(taken)
        say(f"{number}/{len(turns)} {cell} {name}: {taken.failed or _gist(taken.figures)}")


def _take(turn: Turn, jobs: int) -> Measurement:
    figures, failed = Figures(), None
    try:
        figures = measure(turn.contestant, turn.cell, jobs)
    except Exception as error:  # whatever it is, the others can still be measured
        failed = str(error) if isinstance(error, Failed) else repr(error)
    return Measurement(
        round=turn.round,
        contestant=turn.contestant.name,
        cell=turn.cell.name,
        jobs=jobs,
        figures=figures,
        failed=failed,
    )


def _gist(figures: Figures) -> str:
    if Figure.PICKUP_P99 in figures:
        return f"p99 {figures[Figure.PICKUP_P99]:.1f} ms"
    return f"{figures[Figure.JOBS_PER_SECOND]:,.0f} jobs/s"
