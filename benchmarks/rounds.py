"""Rounds in which both sides do the same, one after the other, each step in fresh processes."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final, TypeVar

import uvloop

from benchmarks import bare, ours
from benchmarks.measure import Drained, Measured, Moments
from benchmarks.traffic import Traffic
from benchmarks.workload import BARE, OURS, QUEUE
from trellis_jobs.contract.topology import WORK, consumer_name
from trellis_jobs.jetstream import api
from trellis_jobs.jetstream.connection import Connection

T = TypeVar("T")

SIDES: Final[dict[str, ModuleType]] = {BARE: bare, OURS: ours}
LOOK: Final = 0.02


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
class Step:
    """What one step of one side took; messages are the server's count, both directions."""

    jobs_per_second: float
    cpu_microseconds: float
    sent: float
    received: float


@dataclass(frozen=True, slots=True)
class SideRound:
    """Latencies in seconds; `pulled` ends where the message arrives, `entered` at the handler."""

    steps: dict[str, Step]
    entered: list[float]
    pulled: list[float]


class Bench:
    """Whoever works and whoever creates are two processes, made anew for every step."""

    def __init__(self, url: str, traffic: Traffic, size: Size) -> None:
        self._url = url
        self._traffic = traffic
        self._size = size
        self._processes = ProcessPoolExecutor(
            2, mp_context=multiprocessing.get_context("spawn"), max_tasks_per_child=1
        )

    def run(self, say: Callable[[str], None]) -> dict[str, list[SideRound]]:
        """The sides take turns at going first, which meets a quieter server."""
        done: dict[str, list[SideRound]] = {name: [] for name in SIDES}
        with self._processes:
            for number in range(self._size.rounds):
                for name in sorted(SIDES, reverse=number % 2 == 1):
                    say(f"round {number + 1} of {self._size.rounds}: {name}")
                    done[name].append(self._round(name, SIDES[name]))
        return done

    def _round(self, name: str, side: ModuleType) -> SideRound:
        size, waiting = self._size, self._size.jobs + self._size.one_by_one
        steps = {
            "create_many": self._step(name, lambda: self._do(side.create_many, size.jobs)),
            "create_one_by_one": self._step(
                name, lambda: self._do(side.create_one_by_one, size.one_by_one)
            ),
        }
        uvloop.run(_until(self._url, _holds(waiting)))
        steps["drain"] = self._step(name, lambda: self._do(side.drain, waiting).measured)
        steps["end_to_end"] = self._step(name, lambda: self._end_to_end(name, side))
        return SideRound(steps, *self._pickup(name, side))

    def _step(self, name: str, measure: Callable[[], Measured]) -> Step:
        client = f"{name} jobs"
        before = self._traffic.so_far(client)
        measured = measure()
        after = self._traffic.so_far(client)
        return Step(
            measured.jobs / measured.seconds,
            measured.cpu_seconds / measured.jobs * 1e6,
            (after.sent - before.sent) / measured.jobs,
            (after.received - before.received) / measured.jobs,
        )

    def _end_to_end(self, name: str, side: ModuleType) -> Measured:
        """From the first create to the last ack, the worker having nothing to do before."""
        working = self._begin_working(name, side, self._size.jobs)
        created, drained = self._do(side.create_many, self._size.jobs), working.result().measured
        cpu = created.cpu_seconds + drained.cpu_seconds
        return Measured(created.jobs, created.began, drained.ended, cpu)

    def _pickup(self, name: str, side: ModuleType) -> tuple[list[float], list[float]]:
        """Of single jobs, an idle worker waiting: from the call that creates to the handler."""
        working = self._begin_working(name, side, self._size.pickups)
        sent: Moments = self._do(side.create_paced, self._size.pickups, self._size.pause)
        drained = working.result()
        return _latencies(sent, drained.entered), _latencies(sent, drained.pulled)

    def _begin_working(self, name: str, side: ModuleType, jobs: int) -> Future[Drained]:
        working = self._processes.submit(_in_loop, side.drain, self._url, jobs)
        uvloop.run(_until(self._url, _is_awaited(consumer_name(name, QUEUE.name))))
        return working

    def _do(self, work: Callable[..., Coroutine[Any, Any, T]], *args: float) -> T:
        return self._processes.submit(_in_loop, work, self._url, *args).result()


def _in_loop(work: Callable[..., Coroutine[Any, Any, T]], *args: object) -> T:
    return uvloop.run(work(*args))


def _latencies(sent: Moments, arrived: Moments) -> list[float]:
    return [moment - sent[number] for number, moment in arrived.items()]


async def _until(url: str, is_so: Callable[[Connection], Coroutine[Any, Any, bool]]) -> None:
    connection = await Connection.open(url, name="bench")
    try:
        while True:
            if await is_so(connection):
                return
            await asyncio.sleep(LOOK)
    finally:
        await connection.close()


def _holds(jobs: int) -> Callable[[Connection], Coroutine[Any, Any, bool]]:
    """The server has moved this many jobs from the log to the work queue."""

    async def is_so(connection: Connection) -> bool:
        info = await api.request(connection, f"STREAM.INFO.{WORK}")
        return bool(info["state"]["messages"] >= jobs)

    return is_so


def _is_awaited(consumer: str) -> Callable[[Connection], Coroutine[Any, Any, bool]]:
    """A worker has asked for jobs."""

    async def is_so(connection: Connection) -> bool:
        info = await api.request(connection, f"CONSUMER.INFO.{WORK}.{consumer}")
        return bool(info["num_waiting"])

    return is_so
