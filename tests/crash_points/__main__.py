"""Dies at every crash point, before and after, and says what is wrong then.

With another seed each death is in another scenario, or at another time of passing. One that is not
reached is tried once more, where its point is passed first; only chance excuses it then. Without a
death every scenario must end well, and together they must pass what passed.json says.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.chaos.checker import Violation
from tests.crash_points import record
from tests.crash_points.campaign import Kill, Passed, carry_out, discover, kills, passed_in
from tests.crash_points.unpassed import BY_CHANCE

ABREAST: Final = 6
# By what was run.
Wrong = dict[str, list[Violation]]


async def main(asked: argparse.Namespace, folder: Path) -> int:
    undisturbed = await discover(folder / "undisturbed", ABREAST)
    wrong = {name: result.violations for name, result in undisturbed.items() if result.violations}
    passed = passed_in(undisturbed)
    if asked.write:
        return _write(passed, wrong)
    differing = record.differences(record.read(), record.made_of(passed))
    planned = kills(passed, asked.seed)
    planned = [kill for kill in planned if asked.only in str(kill)][asked.first :: asked.of]
    first = await _die(planned, folder / "deaths", wrong)
    by_chance = [kill for kill in first if kill.trap.point in BY_CHANCE]
    again = [kill.at_first() for kill in first if kill not in by_chance]
    missed = await _die(again, folder / "once-more", wrong)
    _tell(wrong)
    print(f"\n{len(planned)} deaths, {len(wrong)} led to something wrong")
    print(f"{len(again)} were tried twice; chance kept {len(by_chance)} from being reached")
    print(*(f"not reached: {kill}" for kill in missed), *differing, sep="\n")
    return int(bool(wrong or missed or differing))


async def _die(planned: Sequence[Kill], folder: Path, wrong: Wrong) -> list[Kill]:
    """The deaths that were not reached."""
    missed = []
    async for kill, result in carry_out(planned, folder, ABREAST):
        if not result.died:
            missed.append(kill)
        if result.violations:
            wrong[str(kill)] = result.violations
        print("." if not result.violations else f"\n{kill}\n", end="", flush=True)
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
    reader.add_argument("--first", type=int, default=0, help="of a share: which one to begin with")
    reader.add_argument("--of", type=int, default=1, help="of a share: every how many")
    reader.add_argument("--write", action="store_true", help="passed.json, and kill nothing")
    return reader.parse_args()


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="crash-points-") as made:
        sys.exit(asyncio.run(main(_asked(), Path(made))))
