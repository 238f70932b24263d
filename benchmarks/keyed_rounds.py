"""What keys cost: rates beside unkeyed ones, hand-overs of a key, conflicts between writers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from benchmarks import keyed
from benchmarks.keyed import KEYED, Worked
from benchmarks.measure import Measured
from benchmarks.stage import MeteredStage, Step
from benchmarks.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Load:
    """This many jobs, over this many keys in turn; with 0 `keys` in the queue without keys."""

    keys: int
    jobs: int


@dataclass(frozen=True, slots=True)
class Crowd:
    """This many worker processes, beside one that creates jobs."""

    processes: int
    load: Load


@dataclass(frozen=True, slots=True)
class KeyedSize:
    """A hand-over counts while at least `waiting` others wait."""

    rounds: int
    unkeyed: Load
    keyed: tuple[Load, ...]
    waiting: int
    hand_over_processes: tuple[int, ...]
    crowds: tuple[Crowd, ...]


USUAL: Final = KeyedSize(
    rounds=3,
    unkeyed=Load(0, 10_000),
    keyed=(Load(1_000, 10_000), Load(10, 1_000), Load(1, 100), Load(1, 1_000)),
    waiting=50,
    hand_over_processes=(1, 2),
    crowds=tuple(
        Crowd(processes, load) for load in (Load(1, 100), Load(10, 1_000)) for processes in (2, 4)
    ),
)
QUICK: Final = KeyedSize(
    rounds=1,
    unkeyed=Load(0, 200),
    keyed=(Load(1_000, 200), Load(10, 50), Load(1, 20)),
    waiting=5,
    hand_over_processes=(1, 2),
    crowds=(Crowd(2, Load(1, 20)),),
)


@dataclass(frozen=True, slots=True)
class Contended:
    """Refused writes a job: of the workers, and of the process that creates."""

    working: float
    creating: float
    jobs_per_second: float


@dataclass(frozen=True, slots=True)
class KeyedRound:
    """Hand-overs in seconds, by the number of worker processes."""

    steps: dict[Load, dict[str, Step]]
    hand_overs: dict[int, list[float]]
    crowds: dict[Crowd, Contended]


class KeyedBench:
    def __init__(self, url: str, traffic: Traffic, size: KeyedSize) -> None:
        most = max(crowd.processes for crowd in size.crowds)
        self._stage = MeteredStage(url, traffic, processes=1 + max(most, *size.hand_over_processes))
        self._size = size

    def run(self, say: Callable[[str], None]) -> list[KeyedRound]:
        with self._stage:
            return [self._round(number, say) for number in range(self._size.rounds)]

    def _round(self, number: int, say: Callable[[str], None]) -> KeyedRound:
        """Every other round backwards: the first meets a quieter server."""
        size, steps = self._size, dict[Load, dict[str, Step]]()
        of = f"round {number + 1} of {size.rounds}: keys"
        loads = (size.unkeyed, *size.keyed)
        for load in reversed(loads) if number % 2 else loads:
            say(f"{of}, {load.jobs} jobs on {load.keys}")
            steps[load] = self._steps(load)
        say(f"{of}, hand-overs and conflicts")
        hand_overs = {n: self._hand_overs(n) for n in size.hand_over_processes}
        return KeyedRound(steps, hand_overs, {crowd: self._contend(crowd) for crowd in size.crowds})

    def _steps(self, load: Load) -> dict[str, Step]:
        stage = self._stage
        created = stage.step(KEYED, lambda: self._create(load))
        stage.until_queued(load.jobs)
        drained = stage.step(KEYED, lambda: stage.do(keyed.drain, load.jobs, load.keys))
        return {
            "create_many": created,
            "drain": drained,
            "end_to_end": stage.step(KEYED, lambda: self._end_to_end(load)),
        }

    def _create(self, load: Load) -> Measured:
        return self._stage.do(keyed.create_many, load.jobs, load.keys).measured

    def _end_to_end(self, load: Load) -> Measured:
        """From the first create to the last ack, the worker having nothing to do before."""
        queue = "keyed" if load.keys else "unkeyed"
        working = self._stage.begin_working(KEYED, queue, keyed.drain, load.jobs, load.keys)
        return self._create(load).until(working.result())

    def _hand_overs(self, processes: int) -> list[float]:
        """From the last line of a handler to the first line of the next, in whichever process."""
        stage, jobs = self._stage, 2 * self._size.waiting
        last = stage.queued_so_far() + jobs
        working = stage.append_first_many(processes, KEYED, "keyed", keyed.hand_over, last, jobs)
        stage.do(keyed.create_many, jobs, 1)
        worked = [process.result() for process in working]
        entered = sorted(moment for one in worked for moment in one.entered.values())
        left = sorted(moment for one in worked for moment in one.left.values())
        gaps = [after - before for before, after in zip(left, entered[1:], strict=False)]
        return gaps[: self._size.waiting]

    def _contend(self, crowd: Crowd) -> Contended:
        stage, load = self._stage, crowd.load
        last = stage.queued_so_far() + load.jobs
        working = stage.append_first_many(crowd.processes, KEYED, "keyed", keyed.work, last)
        created = stage.do(keyed.create_many, load.jobs, load.keys)
        worked = [process.result() for process in working]
        return Contended(
            sum(one.conflicts for one in worked) / load.jobs,
            created.conflicts / load.jobs,
            load.jobs / (_end(worked) - created.measured.began),
        )


def _end(worked: list[Worked]) -> float:
    return max(moment for one in worked for moment in one.left.values())
