"""One campaign from its first process to its verdict."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final

from tests.admin.projection_lab import position_of
from tests.chaos import evidence, nemesis
from tests.chaos.actors import Kind, database
from tests.chaos.checker import check
from tests.chaos.faults import Fault, Injection, deal, menu, schedule
from tests.chaos.injecting import A_WHILE, Injecting
from tests.chaos.observed import Observed
from tests.chaos.schedule_witness import ScheduleEnding, ScheduleWitness
from tests.chaos.stage import Cast, Stage, one_server, staged, three_servers
from tests.chaos.violation import Violation
from tests.chaos.witness import Witness
from tests.support.facts import until
from tests.support.lab import probe
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.log.feed import LogFeed

READY_WITHIN: Final = 60.0
_TELL_EVERY: Final = 5.0

Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """`every`: seconds between two faults, on average. `timeout`: for all to end afterwards.

    A short one leaves out what takes a minute to heal, and deals every other fault once.
    """

    seed: int
    seconds: float
    servers: int = 1
    binary: Path
    cast: Cast = field(default_factory=Cast)
    every: float = 1.0
    timeout: float = 150.0
    is_short: bool = False


@dataclass(frozen=True, kw_only=True)
class Outcome:
    version: str
    faults: Counter[Fault]
    seen: Observed
    healed_after: float
    violations: list[Violation]


async def run(plan: Plan, folder: Path, tell: Tell) -> Outcome:
    waves = _waves(plan)
    (folder / "schedule").write_text("\n".join(map(str, chain(*waves))))
    opening = one_server if plan.servers == 1 else three_servers
    async with (
        opening(plan.binary) as servers,
        staged(servers, plan.cast, folder, plan.seed) as stage,
        probe(servers.url) as raw,
    ):
        connection = raw.connection
        # Of a short campaign every fault is to strike, however busy the machine is.
        timeout = plan.timeout if plan.is_short else A_WHILE
        injecting, witness = Injecting(stage, connection, timeout), Witness()
        schedules = ScheduleWitness()
        async with _beside(
            nemesis.keep_up(injecting),
            witness.watch(connection),
            schedules.watch(connection),
            _telling(tell, injecting, witness),
        ):
            await until(lambda: _all_ready(stage), "all are ready", deadline=READY_WITHIN)
            tell("all are ready: the faults begin")
            await nemesis.carry_out(waves, injecting)
            tell("the faults are over")
            ending = ScheduleEnding(raw)
            healed_after = await _until_healed(plan, stage, ending, witness)
            tell(f"everything came to rest after {healed_after:.1f} s")
        seen = await evidence.collect(connection, stage, witness, schedules, ending)
        return Outcome(
            version=connection.server_version,
            faults=injecting.done,
            seen=seen,
            healed_after=healed_after,
            violations=check(seen),
        )


def _waves(plan: Plan) -> Sequence[Sequence[Injection]]:
    faults = menu(servers=plan.servers, is_short=plan.is_short)
    if plan.is_short:
        return deal(plan.seed, plan.seconds, faults)
    return [schedule(plan.seed, plan.seconds, faults, every=plan.every)]


def _all_ready(stage: Stage) -> bool:
    return all(actor.is_ready(actor.folder) for actor in stage.actors)


async def _until_healed(
    plan: Plan, stage: Stage, ending: ScheduleEnding, witness: Witness
) -> float:
    """Waits until all jobs are over or the time is up, then stops the workers and the daemons."""
    begun, connection = time.monotonic(), ending.raw.connection
    await _end(stage, Kind.PRODUCER)
    await ending.pause_all(plan.timeout)
    with suppress(AssertionError):  # what is not at rest is for the checker to say
        await until(lambda: _is_at_rest(ending, witness), deadline=plan.timeout)
    healed_after = time.monotonic() - begun
    await _end(stage, Kind.WORKER)
    with suppress(AssertionError):
        await until(lambda: _is_projected(stage, connection), deadline=plan.timeout)
    await _end(stage, Kind.DAEMON)
    return healed_after


async def _end(stage: Stage, kind: Kind) -> None:
    await asyncio.gather(*(actor.end() for actor in stage.of(kind)))


async def _is_at_rest(ending: ScheduleEnding, witness: Witness) -> bool:
    connection = ending.raw.connection
    try:
        if not await ending.are_finished():
            return False
        end = (await LogFeed(connection).extent()).last_sequence
        if witness.position < end or witness.live:
            return False
        busy = await evidence.busy_keys(connection)
        return not busy and not await evidence.work_left(connection)
    except JobsError:  # the servers have not found together yet
        return False


async def _is_projected(stage: Stage, connection: Connection) -> bool:
    end = (await LogFeed(connection).extent()).last_sequence
    files = [database(actor.home) for actor in stage.of(Kind.DAEMON)]
    return all(position_of(file) >= end for file in files)


@asynccontextmanager
async def _beside(*tasks: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    running = [asyncio.create_task(task) for task in tasks]
    try:
        yield
    finally:
        for task in running:
            task.cancel()
        for ended in await asyncio.gather(*running, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended


async def _telling(tell: Tell, injecting: Injecting, witness: Witness) -> None:
    begun = time.monotonic()
    while True:
        await asyncio.sleep(_TELL_EVERY)
        tell(
            f"{time.monotonic() - begun:6.0f} s  {len(witness.jobs):6} jobs, "
            f"{len(witness.live):4} live, {injecting.done.total():5} faults"
        )
