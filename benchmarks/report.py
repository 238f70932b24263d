"""Medians over the rounds, ours as a share of the ceiling, as JSON and as a table."""

from __future__ import annotations

import statistics
from dataclasses import asdict, astuple
from typing import Any, Final

from rich.console import Group
from rich.table import Table

from benchmarks.rounds import SideRound, Size, Step
from benchmarks.workload import BARE, CONCURRENCY, OURS

STEPS: Final = {
    "create_many": "create many",
    "create_one_by_one": "create one by one",
    "drain": "drain",
    "end_to_end": "end to end",
}
PICKUPS: Final = {"pull": "bare: pulled", "handler": "bare: started"}

Report = dict[str, Any]


def report(rounds: dict[str, list[SideRound]], size: Size, server: str) -> Report:
    bare, ours = rounds[BARE], rounds[OURS]
    return {
        "server": server,
        "rounds": size.rounds,
        "jobs": size.jobs,
        "concurrency": CONCURRENCY,
        "steps": {name: _compare_steps(name, bare, ours) for name in STEPS},
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
            f"{_messages(bare)} → {_messages(ours)}",
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


def _messages(step: dict[str, float]) -> str:
    return f"{step['sent'] + step['received']:.2f}"


def _compare_steps(name: str, bare: list[SideRound], ours: list[SideRound]) -> Report:
    ceiling, measured = _median_step(name, bare), _median_step(name, ours)
    return {
        "ceiling": asdict(ceiling),
        "ours": asdict(measured),
        "ratio": measured.jobs_per_second / ceiling.jobs_per_second,
    }


def _median_step(name: str, rounds: list[SideRound]) -> Step:
    steps = [astuple(one.steps[name]) for one in rounds]
    return Step(*(statistics.median(column) for column in zip(*steps, strict=True)))


def _compare_waits(bare: list[list[float]], ours: list[list[float]]) -> Report:
    """Percentiles of each round, then their median: one slow round does not set the figure."""
    ceiling, measured = _percentiles(bare), _percentiles(ours)
    ratio = {rank: measured[rank] / ceiling[rank] for rank in measured}
    return {"ceiling": ceiling, "ours": measured, "ratio": ratio}


def _percentiles(rounds: list[list[float]]) -> dict[str, float]:
    cuts = [statistics.quantiles(seconds, n=100, method="inclusive") for seconds in rounds]
    return {
        "p50": statistics.median(cut[49] for cut in cuts) * 1e3,
        "p99": statistics.median(cut[98] for cut in cuts) * 1e3,
    }
