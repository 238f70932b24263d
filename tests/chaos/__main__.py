"""`python -m tests.chaos`: campaigns, told as they go; ends with 1 if a rule was broken."""

from __future__ import annotations

import argparse
import asyncio
import logging
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from tests.chaos.campaign import Outcome, Plan, run
from tests.chaos.violation import Violation
from tests.support.servers import NEWEST, VERSIONS, server_binary

_SHOWN: Final = 10


def main() -> None:
    args = _arguments()
    broken = 0
    for campaign in range(args.campaigns):
        plan = Plan(
            seed=args.seed + campaign,
            seconds=args.seconds,
            servers=args.servers,
            binary=server_binary(args.version),
            every=args.every,
        )
        broken += _campaign(plan)
    sys.exit(1 if broken else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first campaign")
    parser.add_argument("--campaigns", type=int, default=1, help="one after the other")
    parser.add_argument("--seconds", type=float, default=60, help="in which there are faults")
    parser.add_argument("--every", type=float, default=1, help="seconds between two faults")
    parser.add_argument("--servers", type=int, choices=[1, 3], default=1, help="3: replicas, too")
    parser.add_argument("--version", choices=VERSIONS, default=NEWEST, help="of nats-server")
    return parser.parse_args()


def _campaign(plan: Plan) -> int:
    folder = Path(tempfile.mkdtemp(prefix="trellis-chaos-"))
    logging.basicConfig(filename=folder / "log", force=True)
    _tell(f"seed {plan.seed}, {plan.seconds:g} s, {plan.servers} server(s); {folder}")
    outcome = asyncio.run(run(plan, folder, _tell))
    _report(plan, outcome)
    if outcome.violations:
        _tell(f"kept: {folder}")
    else:
        shutil.rmtree(folder)
    return len(outcome.violations)


def _report(plan: Plan, outcome: Outcome) -> None:
    seen = outcome.seen
    last = {entry.event.job.job_id: entry.status for entry in seen.entries}
    ends = Counter(status.state.value for status in last.values() if status)
    _tell(f"\nnats-server {outcome.version}, {plan.servers} server(s), seed {plan.seed}")
    _tell(f"at rest {outcome.healed_after:.1f} s after the last fault")
    _tell(f"{len(last)} jobs, {len(seen.entries)} events: {_counts(ends)}")
    _tell(
        f"creates: {len(seen.acknowledged)} acknowledged, {len(seen.refused)} refused; "
        f"handlers: {seen.effects.begun.total()} begun, {seen.effects.done.total()} done"
    )
    _tell(f"{outcome.faults.total()} faults:")
    for fault, times in outcome.faults.most_common():
        _tell(f"{times:6}  {fault}")
    _tell(f"{len(outcome.violations)} violations")
    for rule, times in Counter(each.rule for each in outcome.violations).most_common():
        _tell(f"{times:6}  {rule}")
    for violation in outcome.violations[:_SHOWN]:
        _show(violation, plan.seed)


def _show(violation: Violation, seed: int) -> None:
    _tell(f"\nseed {seed}: {violation.rule}\n  {violation.what}")
    for line in violation.history:
        _tell(f"    {line}")


def _counts(counted: Counter[str]) -> str:
    return ", ".join(f"{times} {what}" for what, times in counted.most_common())


def _tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
