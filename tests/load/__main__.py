"""`python -m tests.load`: much at once, told as it goes; ends with 1 if something did not hold."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.load.campaign import Outcome, Plan, run
from tests.load.limits import overweight, slowdown
from tests.load.pickups import percentile

_SHOWN: Final = 10
# Of the median wait after the burst to that before it: more is no recovery.
_MAX_SLOWDOWN: Final = 3.0


def main() -> None:
    args = _arguments()
    plan = Plan(
        jobs=args.jobs,
        connections=args.connections,
        processes=args.processes,
        seconds=args.seconds,
    )
    with tempfile.TemporaryDirectory(prefix="trellis-load-") as made:
        logging.basicConfig(filename=Path(made) / "log", force=True)
        outcome = asyncio.run(run(plan, Path(made), _tell))
    _report(plan, outcome)
    too_slow = slowdown(outcome) > _MAX_SLOWDOWN
    sys.exit(1 if outcome.violations or overweight(outcome, plan) or too_slow else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000, help="in all")
    parser.add_argument("--connections", type=int, default=50, help="of workers")
    parser.add_argument("--processes", type=int, default=4, help="that they are spread over")
    parser.add_argument("--seconds", type=float, default=40, help="of each stretch")
    return parser.parse_args()


def _report(plan: Plan, outcome: Outcome) -> None:
    _tell(f"\n{plan.jobs:,} jobs, {outcome.connections} connections")
    _tell(f"{'seconds until a job starts':<28}{'jobs':>8}{'median':>9}{'99 %':>9}")
    for name, waited in (
        ("before the burst", outcome.before),
        ("ten times as many", outcome.during),
        ("after it", outcome.after),
    ):
        middle, most = percentile(waited, 50), percentile(waited, 99)
        _tell(f"{name:<28}{len(waited):>8}{middle:>9.4f}{most:>9.4f}")
    _tell(f"after : before = {slowdown(outcome):.2f} (at most {_MAX_SLOWDOWN:g})")
    _tell(f"the burst was worked off {outcome.worked_off:.1f} s after its last job\n")
    _tell(f"{'megabytes, the largest':<28}{'first':>8}{'most':>9}{'last':>9}")
    for kind, weight in outcome.weights.items():
        _tell(f"{kind:<28}{weight.first:>8.0f}{weight.peak:>9.0f}{weight.last:>9.0f}")
    for said in overweight(outcome, plan):
        _tell(said)
    _tell(f"\n{len(outcome.violations)} violations")
    for violation in outcome.violations[:_SHOWN]:
        _tell(f"{violation.rule}: {violation.what}")
        for line in violation.history:
            _tell(f"    {line}")


def _tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
