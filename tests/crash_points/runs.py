"""One run: a scenario with a trap or without, the recovery, and what is wrong after it."""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.chaos.violation import Violation
from tests.crash_points.recovery import recover
from tests.crash_points.scenarios import SCENARIOS, VERSIONS
from tests.crash_points.stage import Stage, VictimDied, stage
from tests.crash_points.tripwire import Trap
from tests.crash_points.victim import Victim
from tests.support.servers import NEWEST
from trellis_jobs.errors import JobsError

_LAST_WORDS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Result:
    """`died`: where it was to; without a trap `passed` says what was passed, and how often."""

    died: bool
    passed: Counter[str]
    violations: list[Violation]


async def run(name: str, folder: Path, trap: Trap | None = None) -> Result:
    async with stage(folder, trap, VERSIONS.get(name, NEWEST)) as made:
        wrong = await _play(name, made)
        victim = made.victim
        if victim is None:
            return Result(died=False, passed=Counter(), violations=wrong)
        victim.process.join()
        if victim.process.exitcode not in (0, -signal.SIGKILL):
            wrong.append(Violation("no process ends by itself", name, _last_words(victim)))
        died = victim.process.exitcode == -signal.SIGKILL
        return Result(died, victim.passed, [*wrong, *await _recovered(name, made)])


async def _play(name: str, made: Stage) -> list[Violation]:
    try:
        await SCENARIOS[name](made)
    except VictimDied:
        return []
    except (AssertionError, JobsError, OSError) as never:
        said = () if made.victim is None else _last_words(made.victim)
        if made.victim is not None:
            made.victim.kill()
        return [Violation("a scenario comes to its end", f"{name}: {never}", said)]
    return []


async def _recovered(name: str, made: Stage) -> list[Violation]:
    try:
        return await recover(made)
    except (JobsError, OSError) as error:
        return [Violation("others take over", f"{name}: {error}")]


def _last_words(victim: Victim) -> tuple[str, ...]:
    return tuple(victim.output[-_LAST_WORDS:].splitlines())
