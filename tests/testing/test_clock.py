"""A clock that tests move. That it does what time does is in test_conformance_of_time.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Final

import pytest

from tests.support.example_service import ExampleJobs, example_jobs
from tests.support.facts import until
from trellis_jobs import (
    ActiveJob,
    JobExpired,
    JobRef,
    KeyBusy,
    KeyConcurrency,
    Retry,
    Service,
)
from trellis_jobs.model.events import Completed, Started
from trellis_jobs.testing import Clock, HandlerRun, drain, inline

NOON: Final = datetime(2027, 1, 1, 12, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
MILL: Final = example_jobs(
    "mill",
    str,
    str,
    grind={"max_deliver": 3, "backoff": [60, 600]},
    bake={"key": KeyConcurrency(["oven"])},
    sell={},
)


class Mill:
    """Its handlers write down their payload and the time, and then do what a test wants."""

    def __init__(self, clock: Clock, jobs: type[ExampleJobs[str, str]] = MILL) -> None:
        self.service = Service(jobs, grace=1)
        self.clock = clock
        self.runs: list[tuple[str, timedelta]] = []
        self.then: Callable[[ActiveJob[str]], object] = lambda _: None
        self.go = asyncio.Event()
        for queue in (self.jobs.grind, self.jobs.bake):
            queue.handle(self.handle)

    @property
    def jobs(self) -> ExampleJobs[str, str]:
        return self.service.jobs

    async def handle(self, active: ActiveJob[str]) -> str:
        self.runs.append((active.payload, self.clock.now() - NOON))
        if active.payload == "wait":
            await self.go.wait()
        done = self.then(active)
        if asyncio.iscoroutine(done):
            await done
        return active.payload


@pytest.fixture
def clock() -> Clock:
    return Clock(NOON)


@pytest.fixture
def mill(clock: Clock) -> Mill:
    return Mill(clock)


async def state_of(ref: JobRef[str]) -> str:
    return (await ref.get()).state


async def test_a_delayed_job_runs_when_the_clock_reaches_its_time(mill: Mill, clock: Clock) -> None:
    async with inline(mill.service, clock=clock):
        ref = await mill.jobs.grind.create("wheat", delay=9 * HOUR)
        assert await state_of(ref) == "scheduled"
        await clock.advance(hours=8, minutes=59, seconds=59.999)
        assert await state_of(ref) == "scheduled"
        await clock.advance(milliseconds=1)
        assert await ref.wait() == "wheat"
    assert mill.runs == [("wheat", 9 * HOUR)]


async def test_everything_happens_in_order_and_at_its_own_time(mill: Mill, clock: Clock) -> None:
    async with inline(mill.service, clock=clock):
        for hours in (3, 1, 2):
            await mill.jobs.grind.create(f"{hours}", delay=hours * HOUR)
        await clock.advance(days=1)
        assert clock.now() == NOON + 24 * HOUR
    assert mill.runs == [(f"{hours}", hours * HOUR) for hours in (1, 2, 3)]


async def test_jobs_of_the_same_time_run_in_the_order_of_their_creation(
    mill: Mill, clock: Clock
) -> None:
    async with inline(mill.service, clock=clock):
        await mill.jobs.grind.create_many("abc", run_at=NOON + HOUR)
        await clock.advance(HOUR)
    assert mill.runs == [(each, HOUR) for each in "abc"]


async def test_a_delayed_job_that_a_delayed_job_creates_runs_too(mill: Mill, clock: Clock) -> None:
    mill.then = lambda active: (
        mill.jobs.grind.create(active.payload + "!", delay=HOUR)
        if len(active.payload) < 3
        else None
    )
    async with inline(mill.service, clock=clock):
        await mill.jobs.grind.create("a", delay=HOUR)
        await clock.advance(hours=2)
        assert mill.runs == [("a", HOUR), ("a!", 2 * HOUR)]
        await clock.advance(hours=1)
    assert mill.runs[2:] == [("a!!", 3 * HOUR)]


async def test_a_retry_waits_for_exactly_its_delay(mill: Mill, clock: Clock) -> None:
    def fail(active: ActiveJob[str]) -> None:
        if active.tries == 1:
            raise RuntimeError("once more")
        if active.tries == 2:
            raise Retry("later", after=HOUR)

    mill.then = fail
    async with inline(mill.service, clock=clock):
        ref = await mill.jobs.grind.create("rye")
        assert await state_of(ref) == "retry"
        await clock.advance(seconds=60)
        assert await state_of(ref) == "retry"
        await clock.advance(HOUR)
        assert await ref.wait() == "rye"
    minute = timedelta(minutes=1)
    assert mill.runs == [("rye", timedelta()), ("rye", minute), ("rye", minute + HOUR)]


async def test_a_handler_that_moves_the_clock_takes_that_long(mill: Mill, clock: Clock) -> None:
    """Meanwhile other jobs run, as they would with a server."""
    mill.then = lambda active: clock.advance(HOUR) if active.payload == "slow" else None
    async with inline(mill.service, clock=clock):
        slow = await mill.jobs.grind.create("slow", delay=HOUR)
        await mill.jobs.grind.create("quick", delay=1.5 * HOUR)
        await clock.advance(hours=1)
        assert clock.now() == NOON + 2 * HOUR
        times = {
            type(event): event.at - NOON
            for event in await slow.events()
            if isinstance(event, Started | Completed)
        }
    assert times == {Started: HOUR, Completed: 2 * HOUR}
    assert mill.runs == [("slow", HOUR), ("quick", 1.5 * HOUR)]


async def test_services_share_a_clock(clock: Clock) -> None:
    bakery = example_jobs("bakery", str, str, grind={}, bake={})
    first, second = Mill(clock), Mill(clock, bakery)
    second.runs = first.runs
    async with inline(first.service, clock=clock), inline(second.service, clock=clock):
        for hours, mill in ((1, second), (2, first), (3, second)):
            await mill.jobs.grind.create(f"{mill.service.name}", delay=hours * HOUR)
        await clock.advance(hours=3)
    assert first.runs == [("bakery", HOUR), ("mill", 2 * HOUR), ("bakery", 3 * HOUR)]


async def test_the_clock_forgets_a_service_at_the_end_of_its_block(
    mill: Mill, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    own = mill.service.jobs.runtime.environment
    async with inline(mill.service, clock=clock):
        await mill.jobs.grind.create("wheat", delay=HOUR)
    await clock.advance(hours=2)
    assert mill.runs == []
    assert caplog.records == []
    assert mill.service.jobs.runtime.environment is own


async def test_a_cancelled_advance_leaves_the_job_running(mill: Mill, clock: Clock) -> None:
    async with inline(mill.service, clock=clock):
        ref = await mill.jobs.grind.create("wait", delay=HOUR)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await clock.advance(hours=2)
        assert await state_of(ref) == "active"
        assert clock.now() == NOON + HOUR
        mill.go.set()
        assert await ref.wait(timeout=10) == "wait"


async def test_a_handler_that_never_ends_is_named() -> None:
    clock = Clock(NOON, timeout=0.05)
    mill = Mill(clock)
    async with inline(mill.service, clock=clock):
        await mill.jobs.grind.create("wait", delay=HOUR, job_id="stuck")
        with pytest.raises(TimeoutError, match=r"the alarm of stuck, due at .* took longer"):
            await clock.advance(hours=2)


async def test_a_clock_does_not_go_back(clock: Clock) -> None:
    await clock.advance_to(datetime(2027, 1, 1, 15, tzinfo=timezone(HOUR)))
    assert clock.now() == NOON + 2 * HOUR
    assert clock.now().tzinfo is UTC
    with pytest.raises(ValueError, match="cannot go back"):
        await clock.advance_to(NOON)
    with pytest.raises(ValueError, match="cannot go back"):
        await clock.advance(hours=-1)


async def test_a_clock_needs_a_time_zone(clock: Clock) -> None:
    naive = NOON.replace(tzinfo=None)
    with pytest.raises(ValueError, match="needs a time zone"):
        Clock(naive)
    with pytest.raises(ValueError, match="needs a time zone"):
        await clock.advance_to(naive)


def test_a_clock_begins_at_the_current_time() -> None:
    before = datetime.now(UTC)
    assert before <= Clock().now() <= datetime.now(UTC)


async def test_a_job_decades_ahead_runs_then(mill: Mill, clock: Clock) -> None:
    """Alarms are set ten years ahead at most."""
    run_at = datetime(2060, 2, 29, tzinfo=UTC)
    async with inline(mill.service, clock=clock):
        await mill.jobs.grind.create("old", run_at=run_at)
        await clock.advance_to(run_at - timedelta(seconds=1))
        assert mill.runs == []
        await clock.advance_to(run_at)
    assert mill.runs == [("old", run_at - NOON)]


async def test_a_delayed_job_expires_at_its_deadline_if_nothing_runs_it(
    mill: Mill, clock: Clock
) -> None:
    async with inline(mill.service, clock=clock):
        ref = await mill.jobs.sell.create("bread", delay=HOUR, deadline=2 * HOUR)
        await clock.advance(hours=1, minutes=59)
        assert await state_of(ref) == "pending"
        await clock.advance(minutes=1)
        with pytest.raises(JobExpired):
            await ref.wait()
        assert (await ref.events())[-1].at == NOON + 2 * HOUR


async def test_a_deadline_that_moved_with_its_job_is_kept(clock: Clock) -> None:
    service = Service(example_jobs("shop", str, str, sell={"deadline": 3600}))
    async with inline(service, clock=clock):
        ref = await service.jobs.sell.create("bread", delay=HOUR)
        await ref.reschedule(delay=5 * HOUR)
        await clock.advance(hours=5, minutes=59)
        assert await state_of(ref) == "pending"
        await clock.advance(minutes=1)
        assert await state_of(ref) == "expired"


async def test_a_job_expires_while_it_waits_for_its_next_try(mill: Mill, clock: Clock) -> None:
    def fail(_: ActiveJob[str]) -> None:
        raise RuntimeError("always")

    mill.then = fail
    async with inline(mill.service, clock=clock):
        ref = await mill.jobs.bake.create("bread", deadline=1)
        await clock.advance(seconds=1)
        assert await state_of(ref) == "expired"
        keys = mill.service.jobs.runtime.connected.keys["bake"]
        key = await keys.read(keys.key_policy.template.resolve("bread"))
        assert (key.active, key.queued) == ((), ())


async def test_a_handler_is_stopped_when_its_deadline_passes(mill: Mill, clock: Clock) -> None:
    async with inline(mill.service, clock=clock):
        creating = asyncio.create_task(mill.jobs.bake.create("wait", deadline=HOUR))
        await until(lambda: mill.runs)
        await clock.advance(hours=1)
        ref = await creating
        with pytest.raises(JobExpired):
            await ref.wait()
        assert (await ref.events())[-1].at == NOON + HOUR


async def test_a_running_job_keeps_its_key_however_far_the_clock_moves(
    mill: Mill, clock: Clock
) -> None:
    async with inline(mill.service, clock=clock):
        creating = asyncio.create_task(mill.jobs.bake.create("wait"))
        await until(lambda: mill.runs)
        for _ in range(2):
            await clock.advance(days=1)
            with pytest.raises(KeyBusy):
                await mill.jobs.bake.create("more")
        mill.go.set()
        assert await (await creating).wait() == "wait"


async def test_without_a_clock_a_delayed_job_waits_for_run_now(mill: Mill) -> None:
    async with inline(mill.service):
        ref = await mill.jobs.grind.create("wheat", delay=0.9)
        later = await mill.jobs.grind.create("rye", delay=HOUR)
        assert [await state_of(each) for each in (ref, later)] == ["scheduled", "scheduled"]
        await ref.run_now()
        assert [await state_of(each) for each in (ref, later)] == ["completed", "scheduled"]
        await later.run_now()
    assert [payload for payload, _ in mill.runs] == ["wheat", "rye"]


async def test_drain_leaves_jobs_that_wait_for_the_clock(mill: Mill, clock: Clock) -> None:
    def fail(_: ActiveJob[str]) -> None:
        raise RuntimeError("always")

    mill.then = fail
    async with inline(mill.service, clock=clock):
        await mill.jobs.grind.create("rye")
        await mill.jobs.grind.create("wheat", delay=HOUR)
        drained = await drain(mill.service)
        left = {job.payload: (job.state, job.status.next_attempt_at) for job in drained.left}
    assert left == {
        "rye": ("retry", NOON + timedelta(minutes=1)),
        "wheat": ("scheduled", NOON + HOUR),
    }


async def test_drain_leaves_delayed_jobs_without_a_clock(mill: Mill) -> None:
    async with inline(mill.service):
        await mill.jobs.grind.create("wheat", delay=HOUR)
        assert [job.state for job in (await drain(mill.service)).left] == ["scheduled"]


async def test_a_single_run_takes_its_time_from_the_clock(mill: Mill, clock: Clock) -> None:
    deadlines: list[datetime | None] = []

    def fail(active: ActiveJob[str]) -> None:
        deadlines.append(active.deadline)
        raise RuntimeError("always")

    mill.then = fail
    run = HandlerRun(mill.jobs.grind, "rye", deadline=HOUR, clock=clock)
    with pytest.raises(RuntimeError):
        await run.run()
    assert deadlines == [NOON + HOUR]
    assert run.job.job.status.next_attempt_at == NOON + timedelta(minutes=1)
    with pytest.raises(JobExpired):
        await HandlerRun(mill.jobs.grind, "rye", deadline=NOON, clock=clock).run()


async def test_run_now_waits_for_a_handler_that_takes_time(mill: Mill, clock: Clock) -> None:
    mill.then = lambda _: clock.advance(HOUR)
    async with inline(mill.service, clock=clock):
        ref = await mill.jobs.grind.create("wheat", delay=9 * HOUR)
        await ref.run_now()
        assert await state_of(ref) == "completed"
    assert clock.now() == NOON + HOUR


async def test_two_jobs_of_a_key_take_turns_when_both_are_due(mill: Mill, clock: Clock) -> None:
    mill.then = lambda _: clock.advance(HOUR)
    async with inline(mill.service, clock=clock):
        create = partial(mill.jobs.bake.create, delay=HOUR)
        refs = [await create("first"), await create("second")]
        await clock.advance(hours=3)
        assert [await state_of(ref) for ref in refs] == ["completed", "completed"]
    assert mill.runs == [("first", HOUR), ("second", 2 * HOUR)]
