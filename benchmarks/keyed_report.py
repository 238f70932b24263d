"""Keyed as a share of unkeyed, hand-overs and conflicts; medians over the rounds."""

from __future__ import annotations

import statistics
from dataclasses import asdict
from typing import Final

from rich.console import Group
from rich.table import Table

from benchmarks.keyed_rounds import Contended, Crowd, KeyedRound, KeyedSize, Load
from benchmarks.report import Report, compare_steps, median_of, messages, percentiles

STEPS: Final = {"create_many": "create many", "drain": "drain", "end_to_end": "end to end"}


def keyed_report(rounds: list[KeyedRound], size: KeyedSize) -> Report:
    return {
        "rounds": size.rounds,
        "unkeyed_jobs": size.unkeyed.jobs,
        "rates": [
            {"step": step, **asdict(load), **_compare(rounds, step, size.unkeyed, load)}
            for step in STEPS
            for load in size.keyed
        ],
        "hand_over": [
            {"processes": n, "waiting": size.waiting, **_hand_over(rounds, n)}
            for n in size.hand_over_processes
        ],
        "conflicts": [
            {"processes": crowd.processes, **asdict(crowd.load), **asdict(_median(rounds, crowd))}
            for crowd in size.crowds
        ],
    }


def keyed_table(measured: Report) -> Group:
    return Group(_rates(measured), _hand_overs(measured), _conflicts(measured))


def _rates(measured: Report) -> Table:
    shown = Table(
        *("", "keys", "jobs", "unkeyed/s", "keyed/s", "ratio", "messages", "CPU µs"),
        title=f"keyed against unkeyed ({measured['unkeyed_jobs']} jobs), "
        f"medians of {measured['rounds']} rounds; messages and CPU a job",
    )
    for row in measured["rates"]:
        unkeyed, keyed = row["ceiling"], row["ours"]
        shown.add_row(
            STEPS[row["step"]],
            str(row["keys"]),
            str(row["jobs"]),
            f"{unkeyed['jobs_per_second']:,.0f}",
            f"{keyed['jobs_per_second']:,.0f}",
            f"{row['ratio']:.2f}",
            f"{messages(unkeyed)} → {messages(keyed)}",
            f"{unkeyed['cpu_microseconds']:.0f} → {keyed['cpu_microseconds']:.0f}",
        )
    return shown


def _hand_overs(measured: Report) -> Table:
    shown = Table("hand-over, ms", "waiting", "p50", "p95", "longest")
    for row in measured["hand_over"]:
        times = [f"{row[rank]:.1f}" for rank in ("p50", "p95", "longest")]
        shown.add_row(_workers(row), f"{row['waiting']} or more", *times)
    return shown


def _conflicts(measured: Report) -> Table:
    shown = Table("refused writes a job", "keys", "jobs", "workers", "creating", "jobs/s")
    for row in measured["conflicts"]:
        shown.add_row(
            _workers(row),
            str(row["keys"]),
            str(row["jobs"]),
            f"{row['working']:.2f}",
            f"{row['creating']:.2f}",
            f"{row['jobs_per_second']:,.0f}",
        )
    return shown


def _workers(row: Report) -> str:
    return f"{row['processes']} worker process{'es' if row['processes'] > 1 else ''}"


def _compare(rounds: list[KeyedRound], step: str, unkeyed: Load, load: Load) -> Report:
    return compare_steps(
        [one.steps[unkeyed][step] for one in rounds], [one.steps[load][step] for one in rounds]
    )


def _hand_over(rounds: list[KeyedRound], processes: int) -> Report:
    taken = [one.hand_overs[processes] for one in rounds]
    longest = statistics.median(max(seconds) for seconds in taken) * 1e3
    return {**percentiles(taken, 50, 95), "longest": longest}


def _median(rounds: list[KeyedRound], crowd: Crowd) -> Contended:
    return median_of([one.crowds[crowd] for one in rounds])
