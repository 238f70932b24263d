"""Every crash point is passed by some scenario, or excused; some of the deaths, from all over.

By what passed.json says. `make crash-points` sees whether that is so, and dies at every point.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from tests.crash_points import record
from tests.crash_points.campaign import Kill, carry_out
from tests.crash_points.points import names
from tests.crash_points.runs import Result
from tests.crash_points.scenarios import SCENARIOS
from tests.crash_points.unpassed import BY_CHANCE, NEVER
from tests.crash_points.victim import SITES

ABREAST: Final = 4
WRITE: Final = "`python -m tests.crash_points --write` (half a minute) writes passed.json anew"


def test_every_point_is_passed_or_excused() -> None:
    never = {point for points in NEVER.values() for point in points}
    forgotten = names(SITES) - set(record.read()) - never - BY_CHANCE
    assert sorted(forgotten) == [], (
        f"a new `await`, or one with a new name. {WRITE}; if no scenario passes the point, write "
        "one that does, or say in unpassed.py why none can"
    )


def test_what_is_passed_is_there_and_not_excused() -> None:
    recorded = record.read()
    never = {point for points in NEVER.values() for point in points}
    assert sorted(set(recorded) - names(SITES)) == [], f"gone from the code. {WRITE}"
    passing = {scenario for scenarios in recorded.values() for scenario in scenarios}
    assert sorted(passing ^ set(SCENARIOS)) == [], f"scenarios that came or went. {WRITE}"
    assert sorted(set(recorded) & (never | BY_CHANCE)) == [], (
        "passed, and excused: take it out of unpassed.py"
    )


def test_differences_are_told_point_by_point() -> None:
    recorded, seen = {"both": ["a"], "lost": ["a"]}, {"both": ["a", "b"], "new": ["b"]}
    assert record.differences(recorded, seen) == [
        "not passed, though passed.json says so: lost",
        "passed, though not in passed.json: new",
    ]


@pytest.mark.timeout(300)
def test_wherever_a_process_dies_everything_ends_well(tmp_path: Path) -> None:
    async def carried_out(planned: Iterable[Kill], folder: Path) -> dict[Kill, Result]:
        return {kill: result async for kill, result in carry_out(planned, folder, ABREAST)}

    def missed(results: dict[Kill, Result]) -> list[Kill]:
        return [kill for kill, result in results.items() if not result.died]

    first = asyncio.run(carried_out(record.sample(record.read()), tmp_path / "first"))
    again = asyncio.run(carried_out(missed(first), tmp_path / "again"))
    assert {kill: result.violations for kill, result in first.items() if result.violations} == {}
    assert {kill: result.violations for kill, result in again.items() if result.violations} == {}
    assert missed(again) == []
