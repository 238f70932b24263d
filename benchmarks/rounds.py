"""Rounds in which both sides do the same, one after the other, each step in fresh processes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from types import ModuleType
from typing import Final

from benchmarks import bare, ours
from benchmarks.measure import Drained, Measured, Moments
from benchmarks.stage import MeteredStage, Step
from benchmarks.traffic import Traffic
from benchmarks.workload import BARE, OURS, QUEUE

SIDES: Final[dict[str, ModuleType]] = {BARE: bare, OURS: ours}


@dataclass(frozen=True, slots=True)
class Size:
    """How much one round does; `pause` is what a job gets to be picked up, in seconds."""

    rounds: int
    jobs: int
    one_by_one: int
    pickups: int
    pause: float = 0.005


USUAL: Final = Size(rounds=3, jobs=10_000, one_by_one=1_000, pickups=400)
QUICK: Final = Size(rounds=1, jobs=200, one_by_one=20, pickups=20)


@dataclass(frozen=True, slots=True)
class SideRound:
    """Latencies in seconds; `pulled` ends where the message arrives, `entered` at the handler."""

    steps: dict[str, Step]
    entered: list[float]
    pulled: list[float]


class Bench:
    def __init__(self, url: str, traffic: Traffic, size: Size) -> None:
        self._stage = MeteredStage(url, traffic, processes=2)
        self._size = size

    def run(self, say: Callable[[str], None]) -> dict[str, list[SideRound]]:
        """The sides take turns at going first, which meets a quieter server."""
        done: dict[str, list[SideRound]] = {name: [] for name in SIDES}
        with self._stage:
            for number in range(self._size.rounds):
                for name in sorted(SIDES, reverse=number % 2 == 1):
                    say(f"round {number + 1} of {self._size.rounds}: {name}")
                    done[name].append(self._round(name, SIDES[name]))
        return done

    def _round(self, name: str, side: ModuleType) -> SideRound:
        size, stage, waiting = self._size, self._stage, self._size.jobs + self._size.one_by_one
        steps = {
            "create_many": stage.step(name, lambda: stage.do(side.create_many, size.jobs)),
            "create_one_by_one": stage.step(
                name, lambda: stage.do(side.create_one_by_one, size.one_by_one)
            ),
        }
        stage.until_queued(waiting)
        steps["drain"] = stage.step(name, lambda: _measured(stage.do(side.drain, waiting)))
        steps["end_to_end"] = stage.step(name, lambda: self._end_to_end(name, side))
        return SideRound(steps, *self._pickup(name, side))

    def _end_to_end(self, name: str, side: ModuleType) -> Measured:
        """From the first create to the last ack, the worker having nothing to do before."""
        working = self._begin_working(name, side, self._size.jobs)
        created: Measured = self._stage.do(side.create_many, self._size.jobs)
        return created.until(working.result().measured)

    def _pickup(self, name: str, side: ModuleType) -> tuple[list[float], list[float]]:
        """Of single jobs, an idle worker waiting: from the call that creates to the handler."""
        working = self._begin_working(name, side, self._size.pickups)
        sent: Moments = self._stage.do(side.create_paced, self._size.pickups, self._size.pause)
        drained = working.result()
        return _latencies(sent, drained.entered), _latencies(sent, drained.pulled)

    def _begin_working(self, name: str, side: ModuleType, jobs: int) -> Future[Drained]:
        return self._stage.begin_working(name, QUEUE.name, side.drain, jobs)


def _measured(drained: Drained) -> Measured:
    return drained.measured


def _latencies(sent: Moments, arrived: Moments) -> list[float]:
    return [moment - sent[number] for number, moment in arrived.items()]
