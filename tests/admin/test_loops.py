"""Loops of the daemon: an error costs a turn, never the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest

from jobs_admin.api.views.health import LoopState
from jobs_admin.loops import FIRST_RETRY_DELAY, MAX_RETRY_DELAY, Loop, Loops, retry_delay
from tests.given import NOON, after
from tests.support.facts import until
from trellis_jobs.environment import utc_now
from trellis_jobs.errors import Unreachable

SOON = timedelta(milliseconds=1)


@dataclass
class Work:
    """Fails as often as it is told, then does its work."""

    failures: int
    done: int = 0
    told: asyncio.Event = field(default_factory=asyncio.Event)

    async def once(self) -> None:
        if self.failures:
            self.failures -= 1
            raise ValueError("the disk is full")
        self.done += 1

    async def without_end(self) -> None:
        await self.once()
        await self.told.wait()


@asynccontextmanager
async def running(work: asyncio.Task[None]) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def test_a_loop_that_fails_goes_on_and_says_so() -> None:
    loops, work = Loops(utc_now), Work(failures=2)
    async with running(asyncio.create_task(loops.repeat("sweep", SOON, work.once))):
        await until(lambda: work.done >= 2, "it works again")
        loop = loops.all["sweep"]
        assert loop.failures == 2
        assert loop.last_error == "ValueError: the disk is full"
        assert loop.last_success is not None
        assert loop.state(utc_now()) is LoopState.RECOVERING


async def test_a_loop_that_ends_is_started_again() -> None:
    loops, work = Loops(utc_now), Work(failures=1)
    async with running(asyncio.create_task(loops.keep_running("projector", work.without_end))):
        await until(lambda: work.failures == 0, "it failed")
        loop = loops.all["projector"]
        assert loop.state(utc_now()) is LoopState.FAILING
        await until(lambda: work.done == 1, "it runs again")
        assert loop.state(utc_now()) is LoopState.RECOVERING


async def test_a_loop_that_returns_although_it_should_not_is_started_again() -> None:
    loops, work = Loops(utc_now), Work(failures=0)
    async with running(asyncio.create_task(loops.keep_running("projector", work.once))):
        await until(lambda: work.done >= 2, "it ran again")
        loop = loops.all["projector"]
        assert loop.failures >= 1
        assert (
            loop.last_error
            == "LoopEnded: projector ended, but it should run until the daemon stops"
        )


def test_a_loop_that_fails_again_and_again_is_left_in_peace_for_longer_each_time() -> None:
    pauses, pause = [], 0.0
    for _ in range(8):
        pause = retry_delay(0.1, pause)
        pauses.append(pause)
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30]


def test_a_loop_that_had_run_for_a_good_while_is_soon_started_again() -> None:
    assert retry_delay(MAX_RETRY_DELAY + 1, MAX_RETRY_DELAY) == FIRST_RETRY_DELAY


@pytest.mark.parametrize(
    ("error", "level"), [(Unreachable("here", "gone"), "WARNING"), (ValueError("oops"), "ERROR")]
)
async def test_only_a_mistake_of_ours_is_an_error_with_a_traceback(
    caplog: pytest.LogCaptureFixture, error: Exception, level: str
) -> None:
    async def fail() -> None:
        raise error

    loops = Loops(utc_now)
    async with running(asyncio.create_task(loops.repeat("sweep", SOON, fail))):
        await until(lambda: caplog.records, "it is logged")
    said = caplog.records[0]
    assert said.levelname == level
    assert (said.exc_info is not None) == (level == "ERROR")


def test_a_loop_has_recovered_when_it_has_run_for_a_while() -> None:
    loop = Loop("sweep", last_failure=NOON, failures=1)

    def seen_at(moment: datetime) -> LoopState:
        return loop.state(moment)

    assert seen_at(after(5)) is LoopState.RECOVERING
    assert seen_at(after(11)) is LoopState.RUNNING


async def test_a_loop_that_rarely_works_tries_again_soon_after_an_error() -> None:
    loops, work = Loops(utc_now), Work(failures=1)
    async with running(asyncio.create_task(loops.repeat("sweep", timedelta(hours=1), work.once))):
        await until(lambda: work.done == 1, "it works again")
        assert loops.all["sweep"].state(after(3600)) is not LoopState.FAILING


def test_a_turn_that_does_not_end_is_a_failure() -> None:
    loop = Loop("sweep", last_success=after(-60), progressed_at=NOON)
    assert loop.state(after(60)) is LoopState.RUNNING
    assert loop.state(after(601)) is LoopState.FAILING


async def test_a_turn_that_takes_long_and_gets_on_is_well() -> None:
    now, gone_on, go_on = [NOON], asyncio.Event(), asyncio.Event()
    loops = Loops(lambda: now[0])

    async def sweep() -> None:
        for minute in range(1, 4):
            now[0] = after(minute * 540)
            loops.report_progress("sweep")
        gone_on.set()
        await go_on.wait()

    async with running(asyncio.create_task(loops.repeat("sweep", SOON, sweep))):
        await gone_on.wait()
        assert loops.all["sweep"].state(after(1_800)) is LoopState.RUNNING
        assert loops.all["sweep"].state(after(2_300)) is LoopState.FAILING
