"""Delays, retries, deadlines and schedules follow a clock in memory as they follow real time.

Each scenario runs with a real worker and server, where it waits, and in memory, where it moves the
clock. What the log has at the end is compared.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any, Final

import pytest

from tests.support.facts import until
from tests.testing.recorded import Recorded, end_of, recorded, without_ids
from tests.testing.troupe import Part, Troupe, queues
from trellis_jobs import Every, JobRef, JobsError
from trellis_jobs.model.events import Created, Event, EventKind, RetryScheduled, Scheduled, Started
from trellis_jobs.testing import Clock, ConnectService, enqueued, inline

# Workers hold an alarm that is due within a second. The server keeps a later one.
HELD: Final = 0.2
KEPT: Final = 1.2
ENOUGH: Final = 3
FAR: Final = timedelta(days=3)


@dataclass
class Stage:
    """`clock` is None with a server, where time passes by itself."""

    troupe: Troupe
    clock: Clock | None = None

    async def later(self, fact: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        if self.clock is None:
            await until(fact)
        else:
            await self.clock.advance(seconds=ENOUGH)
            assert await fact(), "the clock stopped before it had happened"

    async def over_later(self, *refs: JobRef[Any]) -> None:
        async def are_over() -> bool:
            return all([(await ref.get()).is_over for ref in refs])

        await self.later(are_over)

    async def in_state_later(self, ref: JobRef[Any], *states: str) -> None:
        async def is_so() -> bool:
            return (await ref.get()).state in states

        await self.later(is_so)

    async def holder(self, queue: str) -> asyncio.Task[JobRef[str]]:
        """A job that holds the key until `troupe.go`. Inline, its creation takes as long."""
        creating = asyncio.create_task(
            queues(self.troupe.jobs)[queue].create(Part(do="hold"), job_id="holder")
        )
        await until(lambda: self.troupe.seen)
        return creating


@dataclass(frozen=True)
class Timed:
    """`in_time`: whether each event that had to wait is not earlier than it was allowed to be."""

    end: object
    job: Recorded
    in_time: tuple[bool, ...]


async def timed(ref: JobRef[Any]) -> Timed:
    end = await end_of(ref)
    job, events = (await ref.get()).job, await ref.events()
    return Timed(end, recorded(job, events), in_time(events))


def in_time(events: list[Event]) -> tuple[bool, ...]:
    ticks = (event for event in events if isinstance(event, Created) and event.schedule)
    found = [event.run_at is not None and event.at >= event.run_at for event in ticks]
    for before, after in pairwise(events):
        if isinstance(before, Scheduled) and isinstance(after, Created):
            found.append(after.at >= before.run_at)
        if isinstance(before, RetryScheduled) and isinstance(after, Started):
            assert before.next_attempt_at is not None
            found.append(after.at >= before.next_attempt_at > before.at)
    return tuple(found)


async def a_held_delay(stage: Stage) -> object:
    ref = await stage.troupe.jobs.play.create(Part(), delay=HELD)
    await stage.over_later(ref)
    return await timed(ref)


async def a_kept_delay(stage: Stage) -> object:
    ref = await stage.troupe.jobs.play.create(Part(), delay=KEPT)
    await stage.over_later(ref)
    return await timed(ref)


async def many_delays(stage: Stage) -> object:
    refs = await stage.troupe.jobs.play.create_many([Part(), Part()], delay=HELD)
    await stage.over_later(*refs)
    return [await timed(ref) for ref in refs]


async def delays_in_order_of_time(stage: Stage) -> object:
    refs = [
        await stage.troupe.jobs.play.create(Part(key=f"{delay}"), delay=delay)
        for delay in (KEPT, HELD)
    ]
    await stage.over_later(*refs)
    return [await timed(ref) for ref in refs]


async def a_time_in_the_past(stage: Stage) -> object:
    now = stage.troupe.service.jobs.runtime.now()
    ref = await stage.troupe.jobs.play.create(Part(), run_at=now - FAR)
    await stage.over_later(ref)
    return await timed(ref)


async def a_delay_and_then_tries(stage: Stage) -> object:
    ref = await stage.troupe.jobs.soon.create(Part(do="stumble"), delay=HELD)
    await stage.over_later(ref)
    return await timed(ref)


async def all_tries_with_their_delays(stage: Stage) -> object:
    ref = await stage.troupe.jobs.soon.create(Part(do="fail"))
    await stage.over_later(ref)
    return await timed(ref)


async def a_snooze(stage: Stage) -> object:
    ref = await stage.troupe.jobs.play.create(Part(do="doze"))
    await stage.over_later(ref)
    return await timed(ref)


async def run_now(stage: Stage) -> object:
    ref = await stage.troupe.jobs.play.create(Part(), delay=FAR)
    await ref.run_now("it is needed")
    await until(lambda: is_over(ref))
    return await timed(ref)


async def run_now_before_the_next_try(stage: Stage) -> object:
    ref = await waits_for_its_next_try(stage)
    await ref.run_now()
    await until(lambda: is_over(ref))
    return await timed(ref)


async def an_earlier_time(stage: Stage) -> object:
    ref = await stage.troupe.jobs.play.create(Part(), delay=FAR)
    await ref.reschedule(delay=HELD)
    await stage.over_later(ref)
    return await timed(ref)


async def a_later_time_and_an_earlier_one(stage: Stage) -> object:
    ref = await stage.troupe.jobs.play.create(Part(), delay=FAR)
    await ref.reschedule(delay=2 * FAR)
    await ref.reschedule(delay=KEPT)
    await stage.over_later(ref)
    return await timed(ref)


async def another_time_for_the_next_try(stage: Stage) -> object:
    ref = await waits_for_its_next_try(stage)
    await ref.reschedule(delay=HELD)
    await stage.over_later(ref)
    return await timed(ref)


async def another_time_for_a_pending_job(stage: Stage) -> object:
    ref = await stage.troupe.jobs.unplayed.create(Part())
    await ref.reschedule(delay=HELD)
    await stage.in_state_later(ref, "pending")
    await ref.cancel("no one plays it")
    return await timed(ref)


async def a_cancelled_delay(stage: Stage) -> object:
    ref = await stage.troupe.jobs.play.create(Part(), delay=FAR)
    await ref.cancel("the play is off")
    return await timed(ref)


async def a_cancelled_delay_with_a_key(stage: Stage) -> object:
    ref = await stage.troupe.jobs.alone.create(Part(), delay=FAR)
    await ref.cancel("the play is off")
    other = await stage.troupe.jobs.alone.create(Part())
    await until(lambda: is_over(other))
    return [await timed(ref), await timed(other)]


async def a_full_key_waits(stage: Stage) -> object:
    return await full_key(stage, "due", becomes="pending")


async def a_full_key_skips(stage: Stage) -> object:
    return await full_key(stage, "due_unless_full", becomes="skipped")


async def full_key(stage: Stage, queue: str, *, becomes: str) -> object:
    holder = await stage.holder(queue)
    ref = await queues(stage.troupe.jobs)[queue].create(Part(), delay=HELD)
    await stage.in_state_later(ref, becomes)
    stage.troupe.go.set()
    await until(lambda: is_over(ref))
    return [await timed(await holder), await timed(ref)]


async def a_delay_with_a_free_key(stage: Stage) -> object:
    ref = await stage.troupe.jobs.due.create(Part(), delay=HELD)
    await stage.over_later(ref)
    return await timed(ref)


async def a_deadline_while_its_key_is_taken(stage: Stage) -> object:
    holder = await stage.holder("crowded")
    ref = await stage.troupe.jobs.crowded.create(Part(), deadline=HELD)
    await stage.over_later(ref)
    stage.troupe.go.set()
    return [await timed(await holder), await timed(ref)]


async def a_schedule(stage: Stage) -> object:
    """Two ticks, and a job that is triggered while the schedule is paused."""
    queue = stage.troupe.jobs.play
    start = stage.troupe.service.jobs.runtime.now() + timedelta(seconds=HELD)
    second = timedelta(seconds=1)
    twice = Every(1, payload=Part(), start=start, end=start + second, catch_up="all")
    await queue.schedules.put("twice", twice)

    async def has_fired_twice() -> bool:
        return [each.job.is_over for each in await enqueued(queue)] == [True, True]

    await stage.later(has_fired_twice)
    await queue.schedules.pause("twice")
    triggered = await queue.schedules.trigger("twice")
    jobs = [await timed(each.ref) for each in await enqueued(queue)]
    schedule = await queue.schedules.get("twice")
    runs = [(run.tick - start, run.skipped, run.refused) for run in schedule.runs[:2]]
    assert runs == [(timedelta(), None, None), (second, None, None)]
    return [*jobs, await timed(triggered)], schedule.next_at, len(schedule.runs)


async def refusals(stage: Stage) -> object:
    jobs = stage.troupe.jobs
    limited = await jobs.play.create(Part(), delay=FAR, deadline=2 * FAR, job_id="limited")
    done = await jobs.play.create(Part(), job_id="done")
    await until(lambda: is_over(done))
    return [
        await refusal(attempt)
        for attempt in (
            jobs.play.create(Part(), delay=FAR, deadline=FAR),
            jobs.play.create(Part(), delay=-1),
            jobs.play.create_many([Part()], delay=FAR, deadline=FAR / 2),
            jobs.play.create(Part(), delay=FAR, job_id="limited"),
            limited.reschedule(delay=3 * FAR),
            limited.reschedule(),
            done.reschedule(delay=FAR),
            done.run_now(),
            jobs.play.ref("unknown").reschedule(delay=FAR),
            jobs.play.ref("unknown").run_now(),
        )
    ]


async def refusal(attempt: Awaitable[object]) -> str:
    with pytest.raises(JobsError) as refused:
        await attempt
    return re.sub(r"\d+", "#", f"{type(refused.value).__name__}: {without_ids(refused.value)}")


async def waits_for_its_next_try(stage: Stage) -> JobRef[str]:
    ref = await stage.troupe.jobs.play.create(Part(do="stumble"))

    async def waits() -> bool:
        return (await ref.get()).state == "retry"

    await until(waits)
    return ref


async def is_over(ref: JobRef[Any]) -> bool:
    return (await ref.get()).is_over


@pytest.mark.parametrize(
    "scenario",
    [
        a_held_delay,
        a_kept_delay,
        many_delays,
        delays_in_order_of_time,
        a_time_in_the_past,
        a_delay_and_then_tries,
        all_tries_with_their_delays,
        a_snooze,
        run_now,
        run_now_before_the_next_try,
        an_earlier_time,
        a_later_time_and_an_earlier_one,
        another_time_for_the_next_try,
        another_time_for_a_pending_job,
        a_cancelled_delay,
        a_cancelled_delay_with_a_key,
        a_full_key_waits,
        a_full_key_skips,
        a_delay_with_a_free_key,
        a_deadline_while_its_key_is_taken,
        a_schedule,
        refusals,
    ],
)
async def test_a_clock_does_what_time_does_with_a_server(
    scenario: Callable[[Stage], Coroutine[Any, Any, object]], connected_service: ConnectService
) -> None:
    real, unreal, clock = Troupe(), Troupe(), Clock()
    async with connected_service(real.service, workers=True):
        expected = await scenario(Stage(real))
    async with inline(unreal.service, clock=clock):
        assert await scenario(Stage(unreal, clock)) == expected
    assert unreal.seen == real.seen


async def test_a_delayed_job_waits_in_the_log_until_it_is_released(
    connected_service: ConnectService,
) -> None:
    troupe = Troupe()
    async with connected_service(troupe.service, workers=True):
        shown = await a_kept_delay(Stage(troupe))
    assert isinstance(shown, Timed)
    assert [kind for kind, _ in shown.job.events] == [
        EventKind.SCHEDULED,
        EventKind.CREATED,
        EventKind.STARTED,
        EventKind.COMPLETED,
    ]
    assert shown.in_time == (True,)
    assert [seen.was_delayed for seen in troupe.seen] == [True]
