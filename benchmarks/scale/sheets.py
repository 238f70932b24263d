"""Figures as tables, for the screen and for the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rich.table import Table

from benchmarks.scale.rates import STEPS


@dataclass(frozen=True, slots=True)
class Sheet:
    """`name` is where it goes on the page."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def on_screen(self) -> Table:
        shown = Table(*self.columns, title=self.title)
        for row in self.rows:
            shown.add_row(*row)
        return shown

    def on_page(self) -> str:
        lines = (self.columns, ("---",) * len(self.columns), *self.rows)
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def sheet(name: str, title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Sheet:
    return Sheet(name, title, tuple(columns), tuple(tuple(row) for row in rows))


def rate_sheet(name: str, title: str, compared: Mapping[str, Mapping[str, float]]) -> Sheet:
    """A line for each step, a column for each condition, and the ratio last."""
    conditions = [condition for condition in compared if condition != "ratio"]
    return sheet(
        name,
        title,
        ("jobs a second", *(condition.replace("_", " ") for condition in conditions), "ratio"),
        (
            (
                STEPS[step],
                *(f"{compared[condition][step]:,.0f}" for condition in conditions),
                f"{ratio:.2f}",
            )
            for step, ratio in compared["ratio"].items()
        ),
    )


def megabytes(size: float) -> str:
    return f"{size / 1e6:,.0f} MB"


def number_of_bytes(size: float) -> str:
    return f"{round(size):,}"
