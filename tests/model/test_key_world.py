"""Many workers and producers on one key, in any order of steps, any of which may be their last.

What must hold after every step: who is active in the log holds its slot, so there are never more
than may be; no job whose handler lives is ended as stale; no job is without a message to bring it
on. And in the end, once no process fails any more: every job is over and the key is empty.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.model.key_errand import Errand, Plan
from tests.model.key_requests import cancel, revive, submit, tidy
from tests.model.key_world import INTERVAL, Message, Process, Worker, World
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.keys.backlog import WhenFull
from trellis_jobs.model.states import JobState

WORKERS = st.builds(
    Worker,
    st.sampled_from(["a", "b", "c"]),
    offset=st.sampled_from([0, 1e6, -50]),
    skew=st.sampled_from([0, 20, -20]),
)
PLANS = st.builds(
    Plan,
    ends_in=st.sampled_from([JobState.COMPLETED, JobState.RETRY, JobState.FAILED]),
    beats=st.integers(0, 2),
    may_overtake=st.booleans(),
    trusting=st.booleans(),
    backoff=st.sampled_from([0, 5]),
)
ANY = st.integers(0, 11)
# How many steps in a row, before anybody else does one.
STEPS = st.sampled_from([0, 1, 2, 3, 4, 5, 9])


def is_stormy(machine: KeyWorld) -> bool:
    return not machine.world.is_calm


class KeyWorld(RuleBasedStateMachine):
    world: World

    @initialize(
        max_active=st.integers(1, 2),
        max_queued=st.integers(0, 3),
        workers=st.lists(WORKERS, min_size=2, max_size=3),
        is_calm=st.sampled_from([False, False, False, True]),
        jobs=st.integers(0, 5),
    )
    def declare(
        self, max_active: int, max_queued: int, workers: list[Worker], is_calm: bool, jobs: int
    ) -> None:
        self.world = World(max_active, max_queued, is_calm=is_calm, workers=workers)
        for _ in range(jobs):
            self.create(WhenFull.REJECT, steps=9)

    @rule(when_full=st.sampled_from(WhenFull), steps=STEPS)
    def create(self, when_full: WhenFull, steps: int) -> None:
        world = self.world
        if not (world.is_calm and when_full is WhenFull.REPLACE_OLDEST):
            self.begin(Process(submit(world, world.new_name("job"), when_full)), steps)

    @precondition(lambda self: self.world.messages)
    @rule(which=ANY, plan=PLANS, steps=STEPS)
    def deliver(self, which: int, plan: Plan, steps: int) -> None:
        if due := self.world.deliverable():
            self.attend(due[which % len(due)], which, plan, steps)

    @precondition(lambda self: self.world.messages)
    @rule(plan=PLANS, steps=STEPS)
    def deliver_all(self, plan: Plan, steps: int) -> None:
        for number, message in enumerate(self.world.deliverable()):
            self.attend(message, number, replace(plan), steps)

    @precondition(lambda self: self.world.processes)
    @rule(which=ANY, steps=STEPS)
    def go_on(self, which: int, steps: int) -> None:
        if process := self.chosen(which):
            self.go(process, steps)

    @precondition(lambda self: self.world.processes)
    @rule(which=st.lists(ANY, min_size=1, max_size=10))
    def take_turns(self, which: list[int]) -> None:
        for number in which:
            if process := self.chosen(number):
                self.go(process, 1)

    @rule(seconds=st.sampled_from([1, INTERVAL, 30, 60]))
    def pass_time(self, seconds: int) -> None:
        if self.world.is_calm:
            self.let_producers_finish()
        self.world.pass_time(seconds)

    def let_producers_finish(self) -> None:
        """A reservation without its `created` for long counts as left behind by a crash."""
        for process in list(self.world.processes):
            while process.about_to and not isinstance(process, Errand):
                self.world.step(process)

    @precondition(lambda self: is_stormy(self) and self.world.processes)
    @rule(which=st.lists(ANY, min_size=1, max_size=3), seconds=st.sampled_from([30, 45, 60, 90]))
    def cut_off(self, which: list[int], seconds: int) -> None:
        cut_off = (self.chosen(number) for number in which)
        self.world.pass_time(seconds, cut_off=frozenset(each for each in cut_off if each))

    @precondition(lambda self: is_stormy(self) and self.world.processes)
    @rule(which=ANY)
    def crash(self, which: int) -> None:
        if process := self.chosen(which):
            self.world.crash(process)

    @precondition(lambda self: is_stormy(self) and self.world.messages)
    @rule(
        so_far=st.integers(2, 4), dies=st.booleans(), seconds=st.sampled_from([45, 90]), steps=STEPS
    )
    def lose_a_holder(self, so_far: int, dies: bool, seconds: int, steps: int) -> None:
        """Others look at its slot all the while, and then go on."""
        self.deliver_all(Plan(), so_far)
        if not self.holders():
            return
        lost = self.holders()[0]
        self.world.pass_time(seconds, cut_off=frozenset([lost]))
        if dies:
            self.world.crash(lost)
        for process in self.world.processes:
            if process.about_to == "acquire":
                self.go(process, steps)

    @precondition(lambda self: is_stormy(self) and self.world.log.heads)
    @rule(which=ANY, when_full=st.sampled_from(WhenFull), steps=STEPS)
    def ask_for_the_same_job_again(self, which: int, when_full: WhenFull, steps: int) -> None:
        self.begin(Process(submit(self.world, self.known(which), when_full)), steps)

    @precondition(lambda self: is_stormy(self) and self.world.log.heads)
    @rule(which=ANY, steps=STEPS)
    def run_a_failed_job_again(self, which: int, steps: int) -> None:
        self.begin(Process(revive(self.world, self.known(which))), steps)

    @precondition(lambda self: is_stormy(self) and self.world.log.heads)
    @rule(which=ANY)
    def cancel(self, which: int) -> None:
        cancel(self.world, self.known(which))

    def attend(self, message: Message, which: int, plan: Plan, steps: int) -> None:
        world = self.world
        if world.is_calm:
            plan = replace(plan, may_overtake=False, trusting=False)
        self.begin(Errand(world, world.workers[which % len(world.workers)], message, plan), steps)

    def begin(self, process: Process, steps: int) -> None:
        self.world.begin(process)
        self.go(process, steps)

    def go(self, process: Process, steps: int) -> None:
        for _ in range(steps):
            if process.about_to is not None:
                self.world.step(process)
                self.everything_holds()

    def holders(self) -> list[Errand]:
        errands = (each for each in self.world.processes if isinstance(each, Errand))
        return [errand for errand in errands if errand.lease]

    def chosen(self, which: int) -> Process | None:
        processes = self.world.processes
        return processes[which % len(processes)] if processes else None

    def known(self, which: int) -> str:
        jobs = list(self.world.log.heads)
        return jobs[which % len(jobs)]

    @invariant()
    def everything_holds(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        _no_more_run_than_may(world)
        _no_live_handler_was_ended_as_stale(world)
        _no_job_is_lost(world)
        _the_queue_is_in_order(world)
        assert world.key.stale_takeovers == world.counted

    def teardown(self) -> None:
        """Once no process fails any more, every job ends."""
        if not hasattr(self, "world"):
            return
        world = self.world
        self.let_producers_finish()
        for process in world.processes:
            if isinstance(process, Errand):
                process.plan.may_overtake = not world.is_calm

        def attend(message: Message) -> Process:
            world_plan = Plan(may_overtake=not world.is_calm)
            return Errand(world, world.workers[0], message, world_plan)

        world.come_to_rest(attend)
        assert world.live() == []
        world.pass_time(61)
        Process(tidy(world, world.key)).run()
        assert (world.key.active, world.key.queued) == ((), ())
        self.everything_holds()


def _no_more_run_than_may(world: World) -> None:
    held = {(slot.job_id, slot.token) for slot in world.key.active}
    owners = ((job, head.status.owner) for job, head in world.log.heads.items())
    active = {(job, owner.id) for job, owner in owners if owner}
    assert active <= held, "an active job without its slot"
    assert len(world.key.active) <= world.max_active
    there = [slot.job_id for slot in world.key.active]
    there += [waiting.job_id for waiting in world.key.queued]
    assert len(there) == len(set(there))


def _no_live_handler_was_ended_as_stale(world: World) -> None:
    for process in world.processes:
        if isinstance(process, Errand) and process.has_a_live_handler:
            assert process.lease is not None
            assert world.log.ended_by.get(process.lease.token) is not EventKind.STALE


def _no_job_is_lost(world: World) -> None:
    brought = {
        (message.job, message.begun.sequence) for message in world.messages if not message.is_gone
    }
    live = ((job, world.log.heads[job].status.run) for job in world.live())
    assert set(live) <= brought


def _the_queue_is_in_order(world: World) -> None:
    ages = [waiting.created_at for waiting in world.key.queued]
    assert ages == sorted(ages)


KeyWorld.TestCase.settings = settings(max_examples=200, stateful_step_count=60)
TestKeyWorld = KeyWorld.TestCase
