"""Worker processes that are frozen and killed: each tick has one job all the same."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.schedules.clock_process import JOBS, ClockProcess, clock_process
from tests.schedules.lab import SECOND, TASK, assert_one_job_per_tick, clock_producer, clockwork
from trellis_jobs import Every
from trellis_jobs.embedded import EmbeddedServer

PULSE: Final = Every(1, payload=TASK, catch_up="all", max_catch_up=1000)
KILLING: Final = 12 * SECOND


async def test_a_process_that_wakes_up_does_not_take_the_alarm_away(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """The frozen process and its successor have the same alarm, and both have yet to answer it."""
    async with clock_producer(server.url, JOBS) as jobs, clockwork(server.url) as found:
        await jobs.tick.schedules.put("pulse", PULSE)
        with clock_process(server.url, tmp_path, "frozen") as frozen:
            before = await found.until_ticks("pulse", 2)
            frozen.freeze()
            with clock_process(server.url, tmp_path, "successor") as successor:
                await successor.until_ready()
                after = await found.until_ticks("pulse", len(before) + 3, deadline=40)
                frozen.thaw()
                # The process that wakes up finds that another one has fired its schedule.
                after = await found.until_ticks("pulse", len(after) + 2)
                successor.kill()
                ticks = await found.until_ticks("pulse", len(after) + 2, deadline=40)
    assert_one_job_per_tick(ticks)


async def test_a_killed_process_loses_no_tick(server: EmbeddedServer, tmp_path: Path) -> None:
    async with clock_producer(server.url, JOBS) as jobs, clockwork(server.url) as found:
        await jobs.tick.schedules.put("pulse", PULSE)
        with clock_process(server.url, tmp_path, "first") as first:
            before = await found.until_ticks("pulse", 2)
            with clock_process(server.url, tmp_path, "second") as second:
                await second.until_ready()
                first.kill()
                ticks = await found.until_ticks("pulse", len(before) + 2, deadline=40)
    assert_one_job_per_tick(ticks)


@pytest.mark.timeout(120)
async def test_five_processes_that_are_killed_at_random_make_one_job_per_tick(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    chance = Random(5)  # noqa: S311 - the same every time
    async with clock_producer(server.url, JOBS) as jobs, clockwork(server.url) as found:
        await jobs.tick.schedules.put("pulse", PULSE)
        names = count()
        with ExitStack() as stack:

            def start() -> ClockProcess:
                made = clock_process(server.url, tmp_path, f"worker-{next(names)}")
                return stack.enter_context(made)

            running = [start() for _ in range(5)]
            await running[0].until_ready()
            first = (await found.until_ticks("pulse", 1))[0]
            while (await found.ticks("pulse"))[-1] < first + KILLING:
                which = chance.randrange(5)
                running[which].kill()
                running[which] = start()
                await running[which].until_ready()
            after = await found.ticks("pulse")
            ticks = await found.until_ticks("pulse", len(after) + 2, deadline=40)
        made = await found.record("pulse")
    assert_one_job_per_tick(ticks)
    assert ticks[0] - made.created_at <= SECOND
