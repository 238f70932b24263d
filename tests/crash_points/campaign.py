"""All scenarios without a trap tell what can be passed; then one run for each way to die."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from tests.crash_points.points import Side
from tests.crash_points.runs import Result, run
from tests.crash_points.scenarios import SCENARIOS
from tests.crash_points.tripwire import Trap

# What each scenario passed, and how often, by "side point".
Passed = Mapping[str, Counter[str]]


@dataclass(frozen=True, slots=True)
class Kill:
    scenario: str
    trap: Trap

    def __str__(self) -> str:
        return f"{self.scenario}: {self.trap}"

    def again(self, passed: Passed, number: int) -> Kill:
        """The same, as soon as the point is passed, in one scenario after the other.

        Those come first that pass it most often: they depend least on chance.
        """
        way = f"{self.trap.side} {self.trap.point}"
        passing = {name: counted[way] for name, counted in passed.items() if counted[way]}
        names = sorted(passing, key=lambda name: (-passing[name], name))
        return Kill(names[number % len(names)], replace(self.trap, nth=1))


def part_of(planned: Sequence[Kill], part: str) -> Sequence[Kill]:
    """`2/3`: the second of three parts, which together are all of it."""
    which, _, of = part.partition("/")
    return planned[int(which) - 1 :: int(of)]


def kills(passed: Passed, seed: int) -> list[Kill]:
    """Each point, before and after, in one of the scenarios that pass it: the seed says where."""
    ways = sorted({way for counted in passed.values() for way in counted})
    return [_kill(way, passed, Random(f"{seed} {way}")) for way in ways]  # noqa: S311


def _kill(way: str, passed: Passed, chance: Random) -> Kill:
    scenario = chance.choice(sorted(name for name, counted in passed.items() if counted[way]))
    side, _, point = way.partition(" ")
    return Kill(scenario, Trap(point, Side(side), chance.randint(1, passed[scenario][way])))


def passed_in(*looks: Mapping[str, Result]) -> Passed:
    """In any of them, as often as it was passed at most."""
    passed: dict[str, Counter[str]] = {}
    for results in looks:
        for name, result in results.items():
            passed[name] = passed.get(name, Counter()) | result.passed
    return passed


async def discover(
    folder: Path, parallel_runs: int, scenarios: Iterable[str] = SCENARIOS
) -> dict[str, Result]:
    found: dict[str, Result] = {}
    async for kill, result in _all(((name, None) for name in scenarios), folder, parallel_runs):
        found[kill[0]] = result
    return found


async def carry_out(
    planned: Iterable[Kill], folder: Path, parallel_runs: int
) -> AsyncIterator[tuple[Kill, Result]]:
    """As they end."""
    wanted = ((kill.scenario, kill.trap) for kill in planned)
    async for (name, trap), result in _all(wanted, folder, parallel_runs):
        assert trap is not None
        yield Kill(name, trap), result


async def _all(
    wanted: Iterable[tuple[str, Trap | None]], folder: Path, parallel_runs: int
) -> AsyncIterator[tuple[tuple[str, Trap | None], Result]]:
    places = asyncio.Semaphore(parallel_runs)

    async def one(
        number: int, name: str, trap: Trap | None
    ) -> tuple[tuple[str, Trap | None], Result]:
        async with places:
            return (name, trap), await run(name, folder / f"{number}-{name}", trap)

    runs = [asyncio.create_task(one(n, *each)) for n, each in enumerate(wanted)]
    for ended in asyncio.as_completed(runs):
        yield await ended
