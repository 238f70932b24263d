"""Every crash point is passed by some scenario, or excused; some of the deaths, from all over.

By what passed.json says. `make crash-points` sees whether that is so, and dies at every point.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Final

import pytest

from tests.crash_points import record
from tests.crash_points.campaign import Kill, carry_out, kills, part_of
from tests.crash_points.points import Side, names
from tests.crash_points.runs import Result
from tests.crash_points.scenarios import SCENARIOS
from tests.crash_points.tripwire import Trap
from tests.crash_points.unpassed import BY_CHANCE, NEVER
from tests.crash_points.victim import SITES

PARALLEL_RUNS: Final = 4
WRITE: Final = "`python -m tests.crash_points --write` (half a minute) writes passed.json again"


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


def test_what_no_scenario_passes_any_more_is_told() -> None:
    recorded, seen = {"both": ["a"], "lost": ["a"]}, {"both": ["a", "b"], "new": ["b"]}
    assert record.lacking(recorded, seen) == ["lost"]


def test_a_death_that_was_not_reached_is_tried_in_every_scenario_that_passes_its_point() -> None:
    way = "before shop:close:answer"
    passed = {"a": Counter({way: 1}), "b": Counter[str](), "c": Counter({way: 9})}
    missed = Kill("a", Trap("shop:close:answer", Side.BEFORE, 4))
    tried = [missed.again(passed, number) for number in range(3)]
    assert [kill.scenario for kill in tried] == ["c", "a", "c"]
    assert {kill.trap.nth for kill in tried} == {1}


def test_all_parts_together_are_all_deaths() -> None:
    planned = kills({"a": Counter({f"after point-{n}": 1 for n in range(10)})}, seed=1)
    parts = [part_of(planned, f"{number}/3") for number in (1, 2, 3)]
    assert sorted(map(str, chain(*parts))) == sorted(map(str, planned))


@pytest.mark.timeout(300)
def test_wherever_a_process_dies_everything_ends_well(tmp_path: Path) -> None:
    async def carried_out(planned: Iterable[Kill], folder: Path) -> dict[Kill, Result]:
        return {kill: result async for kill, result in carry_out(planned, folder, PARALLEL_RUNS)}

    def passing(kill: Kill) -> list[str]:
        """Whether processes meet at a point is partly chance: all who may pass it try."""
        return recorded[kill.trap.point][-3:]

    def missed(results: dict[Kill, Result]) -> list[Kill]:
        return [kill for kill, result in results.items() if not result.died]

    recorded = record.read()
    first = asyncio.run(carried_out(record.sample(recorded), tmp_path / "first"))
    elsewhere = [Kill(name, kill.trap) for kill in missed(first) for name in passing(kill)]
    again = asyncio.run(carried_out(elsewhere, tmp_path / "again"))
    ended = {**first, **again}
    assert {kill: result.violations for kill, result in ended.items() if result.violations} == {}
    died = {kill.trap for kill, result in ended.items() if result.died}
    assert {kill.trap for kill in first} == died
