"""Jobs at a steady pace, ten times that for as long, and the steady pace again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.admin.projection_lab import position_of
from tests.chaos import evidence
from tests.chaos.actors import database
from tests.chaos.checker import check
from tests.chaos.observed import Observed
from tests.chaos.outbursts import outbursts_of
from tests.chaos.violation import Violation
from tests.load.jobs import LOAD
from tests.load.memory import Scales, Weight, connections_to
from tests.load.pickups import pickups
from tests.load.stage import Stage, staged
from tests.support.example_service import ExampleJobs, Report, Task
from tests.support.facts import until
from tests.support.lab import Probe, probe
from trellis_jobs import Queue, Service
from trellis_jobs.environment import utc_now
from trellis_jobs.jetstream.log.feed import LogFeed

# The burst brings ten times as many jobs as each of the steady stretches, in the same time.
BURST: Final = 10
_TICK: Final = 0.1
_TIMEOUT: Final = 600.0

Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """`seconds`: of each of the three stretches, if the machine can."""

    jobs: int
    connections: int
    processes: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """`worked_off`: seconds from the end of the burst until nothing waited any more."""

    connections: int
    before: list[float]
    during: list[float]
    after: list[float]
    worked_off: float
    weights: dict[str, Weight]
    violations: list[Violation]


@dataclass(frozen=True)
class _Created:
    before: frozenset[str]
    during: frozenset[str]
    after: frozenset[str]
    stuck: str
    worked_off: float

    @property
    def all(self) -> frozenset[str]:
        return self.before | self.during | self.after | {self.stuck}


async def run(plan: Plan, folder: Path, tell: Tell) -> Outcome:
    async with _playing(plan, folder) as (stage, producer, raw):
        connected = connections_to(stage.server.port)
        tell(f"{connected} connections, {plan.connections} of them workers'")
        scales = Scales(stage.pids)
        watching = asyncio.create_task(scales.watch())
        created = await _press(plan, stage, producer.jobs, raw, tell)
        stage.go.touch()
        fell = [actor.name for actor in stage.actors if not actor.is_up]
        await _until_rest(stage, raw)
        watching.cancel()
        tell("everything is at rest: the log is read")
        seen = replace(await _observe(stage, raw, created.all), fell=fell)
    return Outcome(
        connections=connected,
        before=pickups(seen.entries, created.before),
        during=pickups(seen.entries, created.during),
        after=pickups(seen.entries, created.after),
        worked_off=created.worked_off,
        weights=scales.weights,
        violations=check(seen),
    )


async def _press(
    plan: Plan, stage: Stage, jobs: ExampleJobs[Task, Report], raw: Probe, tell: Tell
) -> _Created:
    stuck = await jobs.stuck.create(Task())
    steady = plan.jobs // (BURST + 2)
    before = await _create(jobs.plain, steady, plan.seconds)
    await _worked_off(raw)
    tell("the burst begins; two stop reading")
    stage.freeze()
    during = await _create(jobs.plain, plan.jobs - 2 * steady, plan.seconds)
    began = time.monotonic()
    stage.thaw()
    await _worked_off(raw)
    worked_off = time.monotonic() - began
    tell(f"worked off {worked_off:.1f} s after the last job of the burst")
    after = await _create(jobs.plain, steady, plan.seconds)
    await _worked_off(raw)
    return _Created(before, during, after, stuck.id, worked_off)


@asynccontextmanager
async def _playing(
    plan: Plan, folder: Path
) -> AsyncIterator[tuple[Stage, Service[ExampleJobs[Task, Report]], Probe]]:
    async with staged(folder, plan.connections, plan.processes) as stage:
        await until(lambda: stage.is_ready, "all are ready", deadline=_TIMEOUT)
        producer = Service(LOAD)
        async with (
            producer.connect(stage.server.url, workers=False),
            probe(stage.server.url) as raw,
        ):
            yield stage, producer, raw


async def _create(queue: Queue[Task, Report], count: int, seconds: float) -> frozenset[str]:
    """Evenly; a producer that cannot keep up takes longer."""
    made: set[str] = set()
    began = time.monotonic()
    while len(made) < count:
        due = min(count, int(count * (time.monotonic() - began + _TICK) / seconds))
        refs = await queue.create_many([Task()] * (due - len(made)))
        made.update(ref.id for ref in refs)
        await asyncio.sleep(_TICK)
    return frozenset(made)


async def _worked_off(raw: Probe) -> None:
    """All but the stuck one."""

    async def is_alone() -> bool:
        return await raw.work_messages() <= 1

    await until(is_alone, "the jobs are worked off", deadline=_TIMEOUT)


async def _until_rest(stage: Stage, raw: Probe) -> None:
    async def is_at_rest() -> bool:
        end = (await LogFeed(raw.connection).extent()).last_sequence
        is_projected = position_of(database(stage.daemon.home)) >= end
        return is_projected and not await raw.work_messages()

    await until(is_at_rest, "everything is at rest", deadline=_TIMEOUT)
    await asyncio.gather(*(worker.end() for worker in stage.workers))
    await until(is_at_rest, "the last heartbeats are projected", deadline=_TIMEOUT)
    await stage.daemon.end()


async def _observe(stage: Stage, raw: Probe, created: frozenset[str]) -> Observed:
    messages = await evidence.whole_log(raw.connection)
    path = database(stage.daemon.home)
    return Observed(
        entries=evidence.entries_in(messages),
        unreadable=evidence.unreadable_in(messages),
        acknowledged=created,
        effects=evidence.effects_in(line for actor in stage.workers for line in actor.notes),
        work_left=await evidence.work_left(raw.connection),
        differing={"admin": await evidence.differing(raw.connection, path, utc_now())},
        outbursts=outbursts_of(stage.actors),
    )
