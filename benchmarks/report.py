"""Medians over the rounds, ours as a share of the ceiling, as JSON and as a table."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import asdict, astuple
from typing import Any, Final, TypeVar

from rich.console import Group
from rich.table import Table

from benchmarks.keyed_rounds import Contended
from benchmarks.rounds import SideRound, Size
from benchmarks.stage import Step
from benchmarks.workload import BARE, CONCURRENCY, OURS

STEPS: Final = {
    "create_many": "create many",
    "create_one_by_one": "create one by one",
    "drain": "drain",
    "end_to_end": "end to end",
}
PICKUPS: Final = {"pull": "bare: pulled", "handler": "bare: started"}

F = TypeVar("F", Step, Contended)
Report = dict[str, Any]
Say = Callable[[str], None]


def report(rounds: dict[str, list[SideRound]], size: Size, server: str) -> Report:
    bare, ours = rounds[BARE], rounds[OURS]
    return {
        "server": server,
        "rounds": size.rounds,
        "jobs": size.jobs,
        "concurrency": CONCURRENCY,
        "steps": {
            name: compare_steps([r.steps[name] for r in bare], [r.steps[name] for r in ours])
            for name in STEPS
        },
        "pickup": {
            "pull": _compare_waits([r.pulled for r in bare], [r.entered for r in ours]),
            "handler": _compare_waits([r.entered for r in bare], [r.entered for r in ours]),
        },
    }


def table(measured: Report) -> Group:
    return Group(_steps_table(measured), _pickup_table(measured))


def _steps_table(measured: Report) -> Table:
    shown = Table(
        "",
        *("ceiling/s", "ours/s", "ratio", "messages a job", "CPU µs a job"),
        title=f"{measured['jobs']} jobs, medians of {measured['rounds']} rounds, "
        f"nats-server {measured['server']}",
    )
    for name, title in STEPS.items():
        step = measured["steps"][name]
        bare, ours = step["ceiling"], step["ours"]
        shown.add_row(
            title,
            f"{bare['jobs_per_second']:,.0f}",
            f"{ours['jobs_per_second']:,.0f}",
            f"{step['ratio']:.2f}",
            f"{messages(bare)} → {messages(ours)}",
            f"{bare['cpu_microseconds']:.0f} → {ours['cpu_microseconds']:.0f}",
        )
    return shown


def _pickup_table(measured: Report) -> Table:
    shown = Table("pickup, ms", "p50 bare", "p50 ours", "ratio", "p99 bare", "p99 ours", "ratio")
    for name, title in PICKUPS.items():
        waits = measured["pickup"][name]
        cells = [
            f"{waits[part][rank]:.2f}"
            for rank in ("p50", "p99")
            for part in ("ceiling", "ours", "ratio")
        ]
        shown.add_row(title, *cells)
    return shown


def messages(step: dict[str, float]) -> str:
    return f"{step['sent'] + step['received']:.2f}"


def compare_steps(ceiling: list[Step], ours: list[Step]) -> Report:
    bound, measured = median_of(ceiling), median_of(ours)
    return {
        "ceiling": asdict(bound),
        "ours": asdict(measured),
        "ratio": measured.jobs_per_second / bound.jobs_per_second,
    }


def median_of(rounds: list[F]) -> F:
    """Of each figure by itself."""
    columns = zip(*(astuple(one) for one in rounds), strict=True)
    return type(rounds[0])(*(statistics.median(column) for column in columns))


def percentiles(rounds: list[list[float]], *ranks: int) -> dict[str, float]:
    """In milliseconds: of each round, then their median, so that one slow round decides nothing."""
    cuts = [statistics.quantiles(seconds, n=100, method="inclusive") for seconds in rounds]
    return {f"p{rank}": statistics.median(cut[rank - 1] for cut in cuts) * 1e3 for rank in ranks}


def _compare_waits(bare: list[list[float]], ours: list[list[float]]) -> Report:
    ceiling, measured = percentiles(bare, 50, 99), percentiles(ours, 50, 99)
    ratio = {rank: measured[rank] / ceiling[rank] for rank in measured}
    return {"ceiling": ceiling, "ours": measured, "ratio": ratio}
