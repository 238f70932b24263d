"""Dies at every crash point, before and after, and says what is wrong then.

With another seed each death is in another scenario, or at another time of passing. One that is not
reached is tried three times more, in all the scenarios that pass its point; only chance excuses it
then. Without a death every scenario must end well, and together they must pass what passed.json
says: what is not passed at first is looked for once more.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.chaos.violation import Violation
from tests.crash_points import record
from tests.crash_points.campaign import Kill, Passed, carry_out, discover, kills, part_of, passed_in
from tests.crash_points.scenarios import SCENARIOS
from tests.crash_points.unpassed import BY_CHANCE

PARALLEL_RUNS: Final = 6
_TRIES: Final = 3
_A_LINE: Final = 40
# By what was run.
Wrong = dict[str, list[Violation]]


async def main(asked: argparse.Namespace, folder: Path) -> int:
    wrong: Wrong = {}
    if asked.scenario:
        looks = await discover(folder / "undisturbed", PARALLEL_RUNS, [asked.scenario])
        passed, lacking = passed_in(looks), []
    else:
        passed = await _discover(folder, wrong)
        lacking = record.lacking(record.read(), record.made_of(passed))
    if asked.write:
        return _write(passed, wrong)
    wanted = [kill for kill in kills(passed, asked.seed) if asked.only in str(kill)]
    planned = part_of(wanted, asked.part)
    missed = await _die(planned, folder / "deaths", wrong)
    by_chance = [kill for kill in missed if kill.trap.point in BY_CHANCE]
    missed = again = [kill for kill in missed if kill not in by_chance]
    for number in range(_TRIES):
        missed = [kill.again(passed, number) for kill in missed]
        missed = await _die(missed, folder / f"again-{number}", wrong)
    _tell(wrong)
    print(f"\n{len(planned)} deaths, {len(wrong)} led to something wrong")
    print(f"{len(again)} were tried again; chance kept {len(by_chance)} from being reached")
    print(*(f"not reached: {kill}" for kill in missed), sep="\n")
    print(*(f"not passed, though passed.json says so: {point}" for point in lacking), sep="\n")
    return int(bool(wrong or missed or lacking))


async def _discover(folder: Path, wrong: Wrong) -> Passed:
    """Returns the points that scenarios pass when no process is killed. They vary with timing."""
    looks = [await discover(folder / "undisturbed", PARALLEL_RUNS)]
    if record.lacking(record.read(), record.made_of(passed_in(*looks))):
        looks.append(await discover(folder / "undisturbed-again", PARALLEL_RUNS))
    for results in looks:
        wrong |= {name: each.violations for name, each in results.items() if each.violations}
    return passed_in(*looks)


async def _die(planned: Sequence[Kill], folder: Path, wrong: Wrong) -> list[Kill]:
    """The deaths that were not reached."""
    missed, begun = [], time.monotonic()
    if planned:
        print(f"\n{len(planned)} deaths:")
    ended = 0
    async for kill, result in carry_out(planned, folder, PARALLEL_RUNS):
        ended += 1
        if not result.died:
            missed.append(kill)
        if result.violations:
            wrong[str(kill)] = result.violations
        said = "!" if result.violations else "." if result.died else "-"
        minutes = (time.monotonic() - begun) / 60
        is_last = ended % _A_LINE == 0 or ended == len(planned)
        print(said, end=f" {ended} after {minutes:.1f} min\n" if is_last else "", flush=True)
    return missed


def _write(passed: Passed, wrong: Wrong) -> int:
    """Unless a scenario did not come to its end: then it may have passed too little."""
    _tell(wrong)
    if not wrong:
        record.write(record.made_of(passed))
    return int(bool(wrong))


def _tell(wrong: Wrong) -> None:
    for where, violations in wrong.items():
        print(f"\n{where}")
        for violation in violations:
            print(f"  {violation.rule}: {violation.what}")
            for line in violation.history:
                print(f"    {line}")


def _asked() -> argparse.Namespace:
    reader = argparse.ArgumentParser(prog="python -m tests.crash_points", description=__doc__)
    reader.add_argument("--seed", type=int, default=0)
    reader.add_argument("--only", default="", help="what the name of a death must contain")
    reader.add_argument("--scenario", choices=sorted(SCENARIOS), help="all deaths of this one only")
    reader.add_argument("--part", default="1/1", help="2/3: the second of three parts")
    reader.add_argument("--write", action="store_true", help="passed.json, and kill nothing")
    asked = reader.parse_args()
    if asked.write and asked.scenario:
        reader.error("passed.json holds all scenarios: --write goes without --scenario")
    return asked


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="crash-points-") as made:
        sys.exit(asyncio.run(main(_asked(), Path(made))))
