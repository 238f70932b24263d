"""What happens to a key when a worker stops at the worst moment, told step by step."""

from __future__ import annotations

from tests.model.key_errand import Errand, Plan
from tests.model.key_requests import submit, tidy
from tests.model.key_world import ACK_WAIT, TTL, Process, Worker, World
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.keys.backlog import WhenFull
from trellis_jobs.model.states import JobState


def a_world(*jobs: str, max_active: int = 1) -> World:
    world = World(max_active, workers=[Worker("w0"), Worker("w1", offset=-1e6, skew=3600)])
    for job in jobs:
        Process(submit(world, job, WhenFull.REJECT)).run()
    return world


def deliver(world: World, job: str, *, worker: int = 0, until: str | None = None) -> Errand:
    [message] = [message for message in world.deliverable() if message.job == job]
    errand = Errand(world, world.workers[worker], message, Plan())
    world.begin(errand)
    errand.run(until=until)
    return errand


def state_of(world: World, job: str) -> JobState:
    status = world.log.status(job)
    assert status is not None
    return status.state


def holder(world: World) -> list[tuple[str, str]]:
    return [(slot.job_id, slot.instance) for slot in world.key.active]


def test_a_job_that_is_done_leaves_nothing_in_its_key() -> None:
    world = a_world("a")
    deliver(world, "a")
    assert state_of(world, "a") is JobState.COMPLETED
    assert (world.key.active, world.key.queued) == ((), ())


def test_who_comes_back_before_its_acquire_leaves_the_slot_to_its_jobs_newer_run() -> None:
    """Once red: the late one took the slot, was refused its start, and gave the slot away."""
    world = a_world("a", "b")
    late = deliver(world, "a", until="acquire")
    world.pass_time(ACK_WAIT, cut_off=frozenset([late]))
    running = deliver(world, "a", worker=1, until="append outcome")
    late.run()
    assert holder(world) == [("a", "w1")]
    waits = deliver(world, "b", until="acquire")
    waits.step()
    assert waits.about_to == "acquire"
    running.run()
    waits.run()
    assert state_of(world, "a") is state_of(world, "b") is JobState.COMPLETED


def test_who_comes_back_before_its_start_is_fenced_by_its_jobs_next_delivery() -> None:
    world = a_world("a")
    late = deliver(world, "a", until="append started")
    world.pass_time(ACK_WAIT, cut_off=frozenset([late]))
    newer = deliver(world, "a", worker=1, until="append started")
    late.step()
    assert late.about_to == "release what is not needed"
    late.run(until="decide")
    assert holder(world) == [("a", "w1")]
    newer.run()
    late.run()
    assert state_of(world, "a") is JobState.COMPLETED
    assert (world.key.active, world.key.queued) == ((), ())


def test_a_dead_workers_job_takes_its_own_slot_back_and_is_not_stale() -> None:
    world = a_world("a", "b")
    world.crash(deliver(world, "a", until="append outcome"))
    waiting = deliver(world, "b", until="acquire")
    world.pass_time(ACK_WAIT)
    again = deliver(world, "a", worker=1, until="append outcome")
    waiting.step()
    assert holder(world) == [("a", "w1")]
    again.run()
    waiting.run()
    assert state_of(world, "a") is JobState.COMPLETED
    assert world.key.stale_takeovers == 0


def test_who_is_silent_for_the_whole_lease_is_evicted_and_its_outcome_refused() -> None:
    world = a_world("a", "b")
    silent = deliver(world, "a", until="append outcome")
    deliver(world, "b", worker=1, until="acquire").step()
    next_one = world.processes[-1]
    world.pass_time(TTL, cut_off=frozenset([silent]))
    next_one.run(until="append outcome")
    assert holder(world) == [("b", "w1")]
    silent.run()
    assert state_of(world, "a") is JobState.STALE
    assert EventKind.STALE in world.log.ended_by.values()
    assert holder(world) == [("b", "w1")]
    assert world.key.stale_takeovers == 1


def test_a_lease_that_lapsed_is_not_revived_while_a_worker_evicts_its_holder() -> None:
    world = a_world("a", "b")
    silent = deliver(world, "a", until="append outcome")
    evictor = deliver(world, "b", worker=1, until="acquire")
    evictor.step()
    world.pass_time(TTL, cut_off=frozenset([silent]))
    evictor.run(until="fence")
    silent.keep_in_touch()
    evictor.run(until="append outcome")
    assert not silent.has_a_live_handler


def test_a_slot_whose_job_never_started_goes_to_the_next_and_the_start_is_refused() -> None:
    world = a_world("a", "b")
    silent = deliver(world, "a", until="append started")
    next_one = deliver(world, "b", worker=1, until="acquire")
    next_one.step()
    world.pass_time(TTL, cut_off=frozenset([silent]))
    next_one.run(until="append outcome")
    silent.step()
    assert silent.about_to == "release what is not needed"
    assert state_of(world, "a") is JobState.PENDING
    assert world.key.stale_takeovers == 0
    next_one.run()
    silent.run()
    assert state_of(world, "a") is JobState.COMPLETED


def test_two_that_evict_the_same_slot_count_it_once() -> None:
    world = a_world("a", "b", "c")
    lost = deliver(world, "a", until="append outcome")
    evictors = [deliver(world, job, worker=1, until="acquire") for job in "bc"]
    for evictor in evictors:
        evictor.step()
    world.crash(lost)
    world.pass_time(TTL)
    for evictor in evictors:
        evictor.run(until="drop")
    for evictor in evictors:
        evictor.step()
    assert world.key.active == ()
    assert world.key.stale_takeovers == 1


def test_an_eviction_that_stopped_after_its_fence_is_counted_by_who_finishes_it() -> None:
    world = a_world("a", "b", "c")
    world.crash(deliver(world, "a", until="append outcome"))
    evictors = [deliver(world, job, worker=1, until="acquire") for job in "bc"]
    for evictor in evictors:
        evictor.step()
    world.pass_time(TTL)
    evictors[0].run(until="drop")
    world.crash(evictors[0])
    assert (state_of(world, "a"), world.key.stale_takeovers) == (JobState.STALE, 0)
    evictors[1].run(until="drop")
    evictors[1].step()
    assert (holder(world), world.key.stale_takeovers) == ([], 1)


def test_a_place_reserved_for_a_job_that_never_came_goes_to_the_next_who_asks() -> None:
    world = a_world()
    for job in ("never-1", "never-2", "never-3", "never-4"):
        Process(submit(world, job, WhenFull.REJECT)).run(until="create")
    refused = Process(submit(world, "a", WhenFull.REJECT))
    refused.run()
    assert world.log.head("a") is None
    world.pass_time(61)
    Process(submit(world, "b", WhenFull.REJECT)).run()
    assert [waiting.job_id for waiting in world.key.queued] == ["b"]


def test_a_new_run_keeps_the_slot_it_took_while_a_janitor_cleaned_up_the_old_one() -> None:
    world = a_world("a")
    [message] = world.messages
    failing = Errand(world, world.workers[0], message, Plan(ends_in=JobState.FAILED))
    failing.run(until="release")
    tidying = Process(tidy(world, world.key))
    tidying.run(until="forget")
    head = world.log.head("a")
    assert head is not None
    assert world.create_again(message.waiting, head)
    message.acknowledge()
    running = deliver(world, "a", worker=1, until="append outcome")
    tidying.run()
    assert holder(world) == [("a", "w1")]
    running.run()
    assert (world.key.active, world.key.queued) == ((), ())
