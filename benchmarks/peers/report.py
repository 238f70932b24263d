"""The results as Markdown: a table of everybody, the targets, and what has to be known of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from benchmarks.peers import cells
from benchmarks.peers.columns import Column
from benchmarks.peers.contestants import CONTESTANTS, OURS
from benchmarks.peers.figures import Figure, Results
from benchmarks.peers.summary import Spread, Summary
from benchmarks.peers.targets import Verdict, judge

NOTHING: Final = "–"
QUIET: Final = 0.2  # cores


RATE: Final = Figure.JOBS_PER_SECOND
COLUMNS: Final = (
    Column("one by one /s", cells.ONE_BY_ONE, RATE),
    Column("many /s", cells.MANY, RATE),
    Column("drain lean /s", cells.DRAIN_LEAN, RATE),
    Column("drain full /s", cells.DRAIN_FULL, RATE),
    Column("drain full, 2 processes /s", cells.DRAIN_FULL_TWICE, RATE),
    Column("end to end lean /s", cells.END_TO_END_LEAN, RATE),
    Column("end to end full /s", cells.END_TO_END_FULL, RATE),
    Column("pickup p50 ms", cells.PICKUP, Figure.PICKUP_P50, 1),
    Column("pickup p99 ms", cells.PICKUP, Figure.PICKUP_P99, 1),
    Column("2,000 × 100 ms, s", cells.WAITING, Figure.SECONDS, 2),
    Column("worker CPU µs a job", cells.DRAIN_FULL, Figure.WORKER_CPU),
    Column("worker MB", cells.DRAIN_FULL, Figure.WORKER_MEGABYTES),
)


def report(results: Results) -> str:
    summary = Summary(results.measurements)
    parts = [_about(results, summary), _everybody(summary), _targets(judge(summary))]
    return "\n\n".join(filter(None, [*parts, _warnings(results, summary)]))


def _about(results: Results, summary: Summary) -> str:
    said = "; ".join(f"{name} {value}" for name, value in results.about.items())
    return f"Medians (rounds: {summary.rounds}), ± half the spread. {said}."


def _everybody(summary: Summary) -> str:
    head = ["", *(column.title for column in COLUMNS)]
    known = [one.name for one in CONTESTANTS if one.name in summary.contestants]
    rows = [
        [_name(name), *(_shown(column, column.of(name, summary)) for column in COLUMNS)]
        for name in known
    ]
    return _table(head, rows)


def _shown(column: Column, spread: Spread | None) -> str:
    if spread is None:
        return NOTHING
    shown = column.shown(spread.median)
    return f"{shown} ±{spread.share:.0%}" if spread.share else shown


def _name(contestant: str) -> str:
    return f"**{contestant}**" if contestant == OURS else contestant


def _targets(verdicts: list[Verdict]) -> str:
    if not verdicts:
        return ""
    head = ["target", "ours", "best peer", "", "times as good", "wanted", ""]
    return _table(head, [_judged(verdict) for verdict in verdicts])


def _judged(verdict: Verdict) -> list[str]:
    digits = 0 if verdict.target.figure is RATE else 2
    return [
        verdict.target.name,
        f"{verdict.ours:,.{digits}f}",
        f"{verdict.rivals:,.{digits}f}",
        verdict.rival,
        f"{verdict.ratio:.2f}",
        f"{verdict.target.times:.2f}",
        "reached" if verdict.is_reached else "missed",
    ]


def _warnings(results: Results, summary: Summary) -> str:
    lines = [
        f"- round {one.round + 1}, {one.contestant}, {one.cell}: no figure: {one.failed}"
        for one in results.measurements
        if one.failed is not None
    ]
    if (others := summary.most(Figure.OTHERS_CORES)) > QUIET:
        lines.append(f"- other processes kept up to {others:.1f} cores busy: not a quiet machine")
    if twice := summary.most(Figure.RUN_TWICE):
        lines.append(f"- up to {twice:.0f} jobs of a measurement ran more than once")
    return "\n".join(lines)


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    rule = ["---", *("--:" for _ in head[1:])]
    return "\n".join("| " + " | ".join(cells_) + " |" for cells_ in (head, rule, *rows))
