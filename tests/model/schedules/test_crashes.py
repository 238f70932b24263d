"""Processes, crashes and changes in any order create one job for a tick, and lose none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.schedules.given import ANN, DEPLOY, HOUR, MINUTE, NIGHTLY, cron, every, utc
from tests.model.schedules.given import record as make
from tests.model.schedules.world import Alarm, World
from trellis_jobs.model.schedules.address import tick_job_id
from trellis_jobs.model.schedules.changes import pause, put, resume, trigger
from trellis_jobs.model.schedules.definition import CatchUp, Overlap, ScheduleDefinition
from trellis_jobs.model.schedules.firing import next_fire_time
from trellis_jobs.model.schedules.record import Decision, Pause, ScheduleRecord
from trellis_jobs.model.schedules.ticks import ticks_between
from trellis_jobs.model.states import LIVE, OVER, JobState
from trellis_jobs.model.values import replace

NOON = utc("2026-03-28T12:00")
MANY = 100_000
# Every tick gets its job, as long as fewer are missed at once than the limit.
COMPLETE = [
    cron("*/7 * * * *", catch_up=CatchUp.ALL, max_catch_up=1000),
    cron("*/7 * * * *", catch_up=CatchUp.ALL, max_catch_up=1000, jitter=20 * MINUTE),
    every(150, catch_up=CatchUp.ALL, max_catch_up=1000),
]
ANY = [
    *COMPLETE,
    cron("*/5 * * * *", catch_up=CatchUp.SKIP),
    cron("*/5 * * * *", catch_up=CatchUp.ONCE, overlap=Overlap.SKIP),
    cron("*/5 * * * *", catch_up=CatchUp.ALL, overlap=Overlap.REPLACE),
    every(90, jitter=timedelta(seconds=60), overlap=Overlap.CANCEL_RUNNING),
    cron("0 * * * *", end=NOON + 3 * HOUR, catch_up=CatchUp.ALL, max_catch_up=2),
]
Action = Callable[[World], None]
Move = Callable[[int, World], None]


def new_world(definition: ScheduleDefinition) -> World:
    world = World(make(definition, NOON), NOON)
    world.set_alarm(next_fire_time(world.record))
    return world


def step(which: int, world: World) -> None:
    if world.running:
        world.step(which)


def kill(which: int, world: World) -> None:
    if world.running:
        world.kill(which)


def wait(minutes: int, world: World) -> None:
    world.pass_time(world.now + minutes * MINUTE)


def outage(hours: int, world: World) -> None:
    """All processes are gone; the log may forget jobs that have ended."""
    world.kill_all()
    world.pass_time(world.now + hours * HOUR)


def receive(_which: int, world: World) -> None:
    world.receive()


def receive_twice(_which: int, world: World) -> None:
    """Old servers deliver an alarm twice at times."""
    world.due += world.due[:1]
    world.receive()


def advance_job(which: int, world: World) -> None:
    live = [job_id for job_id, state in world.jobs.items() if state in LIVE]
    if live:
        job_id = live[which % len(live)]
        running = world.jobs[job_id] is JobState.ACTIVE
        world.jobs[job_id] = JobState.COMPLETED if running else JobState.ACTIVE


def purge(_which: int, world: World) -> None:
    world.purge()


def _actions(functions: dict[Move, int]) -> st.SearchStrategy[list[Action]]:
    """Each function as often as its weight says, with a small number."""
    weighted = [function for function, weight in functions.items() for _ in range(weight)]
    one = st.builds(partial, st.sampled_from(weighted), st.integers(1, 6))
    return st.lists(one, max_size=120)


FAULTS: dict[Move, int] = {
    step: 14,
    receive: 4,
    receive_twice: 1,
    kill: 2,
    wait: 3,
    outage: 1,
    advance_job: 2,
    purge: 1,
}


def expected_ids(definition: ScheduleDefinition, until: datetime) -> set[str]:
    return {tick_job_id(NIGHTLY, tick) for tick in ticks_between(definition, NOON, until, MANY)}


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(COMPLETE), _actions(FAULTS))
def test_every_tick_has_exactly_one_job_whatever_dies(
    definition: ScheduleDefinition, actions: list[Action]
) -> None:
    """The alarm alone leads there: no other process looks after the schedule."""
    world = new_world(definition)
    for action in actions:
        action(world)
    world.pass_time(world.now + 2 * HOUR)
    world.settle()
    decided = world.record.decided_until
    assert world.accepted == dict.fromkeys(expected_ids(definition, decided), 1)
    assert decided > world.now - definition.jitter - 10 * MINUTE
    assert world.record.unfinished == ()
    assert not world.alarm_is_late


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(ANY), _actions(FAULTS))
def test_no_policy_creates_a_second_job_for_a_tick(
    definition: ScheduleDefinition, actions: list[Action]
) -> None:
    world = new_world(definition)
    for action in actions:
        action(world)
    world.pass_time(world.now + 2 * HOUR)
    world.settle()
    assert set(world.accepted.values()) <= {1}
    assert world.accepted.keys() <= expected_ids(definition, world.now)
    assert world.record.unfinished == ()
    assert not world.alarm_is_late


# --- Changes


def put_some(which: int, world: World) -> None:
    def change(record: ScheduleRecord, now: datetime) -> Decision:
        return put(record, ANY[which % len(ANY)], author=DEPLOY, now=now)

    world.change(change)


def put_payload(which: int, world: World) -> None:
    def change(record: ScheduleRecord, now: datetime) -> Decision:
        definition = replace(record.definition, payload={"doc": which})
        return put(record, definition, author=ANN, now=now)

    world.change(change)


def pause_some(which: int, world: World) -> None:
    until = world.now + which * 10 * MINUTE if which % 2 else None
    world.change(lambda record, now: pause(record, Pause(since=now, until=until, by="ann")))


def resume_some(_which: int, world: World) -> None:
    world.change(lambda record, now: resume(record, now=now))


def trigger_some(which: int, world: World) -> None:
    world.change(lambda record, now: trigger(record, f"01MANUAL{which}", by="ann", now=now))


PAUSES: dict[Move, int] = {**FAULTS, put_payload: 1, pause_some: 1, resume_some: 1}
CHANGES: dict[Move, int] = {**PAUSES, put_some: 1, trigger_some: 1}
MANUAL = {f"01MANUAL{n}" for n in range(10)}


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(COMPLETE), _actions(PAUSES))
def test_pauses_and_new_payloads_lose_no_tick(
    definition: ScheduleDefinition, actions: list[Action]
) -> None:
    world = new_world(definition)
    for action in actions:
        action(world)
    world.settle()
    resume_some(0, world)
    world.pass_time(world.now + 2 * HOUR)
    world.settle()
    decided = world.record.decided_until
    assert world.accepted == dict.fromkeys(expected_ids(definition, decided), 1)
    assert decided > world.now - definition.jitter - 10 * MINUTE
    assert world.record.unfinished == ()
    assert not world.alarm_is_late


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(ANY), _actions(CHANGES))
def test_no_change_creates_a_second_job_for_a_tick(
    definition: ScheduleDefinition, actions: list[Action]
) -> None:
    world = new_world(definition)
    for action in actions:
        action(world)
    world.settle()
    assert set(world.accepted.values()) <= {1}
    ticks = {expected for each in ANY for expected in expected_ids(each, world.now)}
    assert world.accepted.keys() <= ticks | MANUAL
    assert world.record.unfinished == ()
    assert not world.alarm_is_late


# --- Every order of the steps of a worker process and of a change


def orders(handler: int, changer: int) -> Iterator[str]:
    """All sequences with at most these numbers of steps."""
    for length in range(handler + changer + 1):
        for chosen in range(min(length, changer) + 1):
            if length - chosen <= handler:
                for places in combinations(range(length), chosen):
                    yield "".join("C" if n in places else "H" for n in range(length))


def run(world: World, order: str) -> None:
    """C is the change, which is running; H receives an alarm, or continues with it."""
    changer = world.running[0]
    for who in order:
        handlers = [each for each in world.running if each.alarm is not None]
        if who == "C" and changer in world.running:
            world.step(world.running.index(changer))
        elif who == "H" and handlers:
            world.step(world.running.index(handlers[0]))
        elif who == "H":
            world.receive()


def kill_some(world: World, victims: str) -> None:
    for process in list(world.running):
        if ("H" if process.alarm is not None else "C") in victims:
            world.kill(world.running.index(process))


def paused_with_a_spare_alarm(change: Move) -> World:
    """An alarm from before the pause comes, while someone changes the schedule."""
    world = new_world(COMPLETE[0])
    pause_some(5, world)
    world.settle()
    assert world.record.paused is not None
    world.alarm = Alarm(NOON + 50 * MINUTE, NOON - HOUR)
    world.due = [Alarm(NOON, NOON - HOUR)]
    change(2, world)
    return world


def with_a_tick_that_is_due(change: Move) -> World:
    world = new_world(COMPLETE[0])
    world.pass_time(NOON + 7 * MINUTE)
    change(2, world)
    return world


def put_finer(_which: int, world: World) -> None:
    world.change(lambda record, now: put(record, COMPLETE[2], author=DEPLOY, now=now))


@pytest.mark.parametrize("change", [resume_some, put_finer, put_payload, trigger_some, pause_some])
@pytest.mark.parametrize("begin", [paused_with_a_spare_alarm, with_a_tick_that_is_due])
def test_no_order_of_steps_makes_an_alarm_late_or_a_job_twice(
    begin: Callable[[Move], World], change: Move
) -> None:
    """Also if either process, or both, die after any step."""
    for order in orders(handler=5, changer=3):
        for victims in ("", "H", "C", "HC"):
            world = begin(change)
            run(world, order)
            kill_some(world, victims)
            world.settle()
            assert not world.alarm_is_late, (order, victims)
            assert world.record.unfinished == (), (order, victims)
            resume_some(0, world)
            world.pass_time(NOON + 2 * HOUR)
            world.settle()
            assert set(world.accepted.values()) == {1}, (order, victims)
            if change is not put_finer:
                expected = expected_ids(COMPLETE[0], world.record.decided_until)
                assert world.accepted.keys() - MANUAL == expected, (order, victims)


def test_a_crash_at_each_step_of_a_tick_is_harmless() -> None:
    """One tick, one process that dies after n steps, and another that takes over."""
    definition = COMPLETE[0]
    for steps in range(20):
        world = new_world(definition)
        world.pass_time(NOON + 7 * MINUTE)
        world.receive()
        for _ in range(steps):
            if world.running:
                world.step(0)
        world.kill_all()
        world.settle()
        assert world.accepted == {tick_job_id(NIGHTLY, NOON + 7 * MINUTE): 1}
        assert not world.alarm_is_late


@pytest.mark.parametrize("state", sorted(OVER))
def test_a_job_that_was_purged_is_not_created_again_by_a_late_alarm(state: JobState) -> None:
    definition = cron("0 0 1 1 *", catch_up=CatchUp.ALL)
    world = new_world(definition)
    world.pass_time(utc("2027-01-01"))
    world.settle()
    [first] = world.accepted
    world.jobs[first] = state
    world.purge()
    assert first not in world.jobs
    world.pass_time(utc("2028-01-01"))
    world.settle()
    assert sorted(world.accepted.values()) == [1, 1]
