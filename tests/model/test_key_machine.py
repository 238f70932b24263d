"""Any order of moves of many jobs and workers on one key, against a model that is no machine.

The model knows who runs and who waits as plain sets and numbers, and says of each move what must
come of it; after each move the state must say the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.given import after, key_state, slot, waiting
from trellis_jobs.model.keys import slots as key_slots
from trellis_jobs.model.keys.backlog import (
    Admission,
    Admitted,
    CoalescedInto,
    Full,
    Refusal,
    Rejected,
    Replaced,
    WhenFull,
    admit,
)
from trellis_jobs.model.keys.slots import (
    Acquired,
    Acquisition,
    AllSlotsTaken,
    Held,
    NotFirst,
    Removed,
    Renewed,
    SlotLost,
)
from trellis_jobs.model.keys.state import KeyState, Slot, Waiting
from trellis_jobs.model.values import replace

JOBS = [f"job-{number}" for number in range(9)]
# Some jobs are as old as others.
AGES = {job: number // 2 for number, job in enumerate(JOBS)}
TTL = timedelta(seconds=60)
JOB = st.sampled_from(JOBS)
REQUEST = st.sampled_from(["first", "second"])

Moved = Admission | Acquisition | Renewed | SlotLost | Removed


@dataclass
class Key:
    """The model: `active` by job, `queue` as (age, arrival, job) and always sorted.

    Each token in `known` came with a knowledge of the log, and what waits may be `due` later.
    """

    max_active: int
    max_queued: int
    active: dict[str, str] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)
    queue: list[tuple[int, int, str]] = field(default_factory=list)
    due: dict[str, int] = field(default_factory=dict)
    requests: dict[str, str] = field(default_factory=dict)
    takeovers: int = 0
    arrivals: int = 0
    renewed: dict[str, datetime] = field(default_factory=dict)

    @property
    def free(self) -> int:
        return self.max_active - len(self.active)

    @property
    def waiting(self) -> list[str]:
        return [job for _, _, job in self.queue]

    @property
    def is_full(self) -> bool:
        return len(self.queue) >= self.max_queued + self.free

    @property
    def refusal(self) -> Full:
        if self.max_queued:
            return Full(Refusal.QUEUE_DEPTH, self.max_queued)
        return Full(Refusal.ACTIVE_LIMIT, self.max_active)

    def knows(self, job: str) -> bool:
        return job in self.active or job in self.waiting

    def may_start(self, job: str, now: int) -> bool:
        """Among those who do not insist: not while older ones wait for every free slot."""
        if job in self.waiting:
            ahead = self.waiting[: self.waiting.index(job)]
        else:
            ahead = [other for age, _, other in self.queue if age <= AGES[job]]
        return sum(self.due[other] <= now for other in ahead) < self.free

    def wait(self, job: str, request: str, due: int = 0) -> None:
        self.arrivals += 1
        self.queue = sorted([*self.queue, (AGES[job], self.arrivals, job)])
        self.requests[job], self.due[job] = request, due

    def leave_queue(self, job: str) -> None:
        self.queue = [entry for entry in self.queue if entry[2] != job]

    def replace(self, oldest: str, job: str, request: str) -> None:
        self.leave_queue(oldest)
        self.wait(job, request)

    def holder(self, token: str) -> str | None:
        return next((job for job, held in self.active.items() if held == token), None)


def new_waiting(job: str, request: str = "worker", due: int = 0) -> Waiting:
    return waiting(
        job,
        created_at=after(AGES[job]),
        request_id=request,
        not_before=after(due) if due else None,
        unknown={"from": "elsewhere"},
    )


class KeyMachine(RuleBasedStateMachine):
    state: KeyState
    key: Key

    @initialize(max_active=st.integers(1, 3), max_queued=st.integers(0, 3))
    def declare(self, max_active: int, max_queued: int) -> None:
        self.state = key_state(max_active=max_active, max_queued=max_queued)
        self.key = Key(max_active, max_queued)
        self.tokens = ["unknown"]
        self.now = 100
        self.look()

    def new_slot(self, job: str, since: int) -> Slot:
        token = f"{job}, attempt {len(self.tokens)}"
        self.tokens.append(token)
        return slot(job, token=token, since=since, started_at=after(self.now))

    def move(self, make: Callable[[KeyState], Moved], changes: Callable[[], None] | None) -> Moved:
        """Make the move; without `changes` to the model the very same state must come back."""
        before = self.state
        moved = make(before)
        if changes is None:
            assert moved.state is before
        else:
            changes()
            assert moved.state != before
        self.state = moved.state
        return moved

    @rule(seconds=st.integers(0, 10))
    def pass_time(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def look(self) -> None:
        self.seen, self.seen_tokens = self.state, dict(self.key.active)

    @rule(job=JOB, request=REQUEST, when_full=st.sampled_from(WhenFull))
    def ask_to_be_let_in(self, job: str, request: str, when_full: WhenFull) -> None:
        def ask(state: KeyState) -> Admission:
            return admit(state, new_waiting(job, request), when_full)

        key, oldest = self.key, next(iter([*self.key.waiting, *self.key.active]), "")
        if key.knows(job):
            assert isinstance(self.move(ask, None), Admitted)
        elif not key.is_full:
            assert isinstance(self.move(ask, lambda: key.wait(job, request)), Admitted)
        elif when_full is WhenFull.COALESCE:
            assert self.move(ask, None) == CoalescedInto(self.state, key.refusal, oldest)
        elif when_full is WhenFull.REPLACE_OLDEST and key.queue:
            replaced = self.move(ask, lambda: key.replace(oldest, job, request))
            assert isinstance(replaced, Replaced)
            assert replaced.replaced.job_id == oldest
        else:
            assert self.move(ask, None) == Rejected(self.state, key.refusal)

    @rule(job=JOB, since=st.integers(1, 9), may_overtake=st.booleans())
    def try_to_start(self, job: str, since: int, may_overtake: bool) -> None:
        key, mine = self.key, self.new_slot(job, since)

        def take(state: KeyState) -> Acquisition:
            return key_slots.acquire(state, mine, new_waiting(job), may_overtake=may_overtake)

        def taken() -> None:
            key.leave_queue(job)
            key.active[job] = mine.token
            key.known[mine.token] = since
            key.renewed.pop(job, None)

        if job in key.active and key.known[key.active[job]] >= since:
            assert isinstance(self.move(take, None), Held)
        elif job not in key.active and key.free == 0:
            assert isinstance(self.move(take, None), AllSlotsTaken)
        elif job not in key.active and not may_overtake and not key.may_start(job, self.now):
            assert isinstance(self.move(take, None), NotFirst)
        else:
            assert isinstance(self.move(take, taken), Acquired)
            again = take(self.state)
            assert isinstance(again, Acquired)
            assert again.state is self.state, "a repeated acquire writes nothing"

    @precondition(lambda self: self.key.active)
    @rule(data=st.data())
    def come_back_after_a_crash(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(sorted(self.key.active)))
        old = self.key.active[job]
        self.try_to_start(job, self.key.known[old] + 1, may_overtake=False)
        assert self.key.active[job] != old
        assert isinstance(key_slots.renew(self.state, old, at=after(0), ttl=TTL), SlotLost)

    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        token = data.draw(st.sampled_from(self.tokens))
        self.now += 1
        at, job = after(self.now), self.key.holder(token)

        def beat(state: KeyState) -> Renewed | SlotLost:
            return key_slots.renew(state, token, at=at, ttl=TTL)

        if job is None:
            assert isinstance(self.move(beat, None), SlotLost)
        else:
            renewed = {job: at}
            assert isinstance(self.move(beat, lambda: self.key.renewed.update(renewed)), Renewed)

    @rule(data=st.data(), requeue=st.booleans(), backoff=st.integers(0, 5))
    def release(self, data: st.DataObject, requeue: bool, backoff: int) -> None:
        token = data.draw(st.sampled_from(self.tokens))
        job, due = self.key.holder(token), self.now + backoff
        back = new_waiting(job, due=due) if requeue and job else None

        def left() -> None:
            assert job is not None
            self.remove(job)
            if back:
                self.key.wait(job, "worker", due)

        self.move(
            lambda state: key_slots.release(state, token, requeue=back), left if job else None
        )
        assert job is None or self.key.knows(job) == requeue

    @rule(data=st.data(), counted=st.booleans())
    def take_over(self, data: st.DataObject, counted: bool) -> None:
        token = data.draw(st.sampled_from(self.tokens))
        job = self.key.holder(token)

        def dropped() -> None:
            assert job is not None
            self.remove(job)
            self.key.takeovers += counted

        self.move(
            lambda state: key_slots.drop(state, token, counted=counted), dropped if job else None
        )

    @rule(jobs=st.lists(JOB, max_size=3))
    def forget_the_finished(self, jobs: list[str]) -> None:
        """Those of which a slot was taken since the last look keep it."""
        key = self.key
        seen = [job for job in jobs if job in self.seen_tokens]
        held = {job for job in seen if key.active.get(job) == self.seen_tokens[job]}
        waits = {job for job in jobs if job in key.waiting}

        def gone() -> None:
            for job in held:
                self.remove(job)
            for job in waits:
                key.leave_queue(job)

        self.move(
            lambda state: key_slots.forget(state, *jobs, seen=self.seen),
            gone if held | waits else None,
        )

    @rule(job=JOB, request=st.none() | REQUEST)
    def wait_no_more(self, job: str, request: str | None) -> None:
        key = self.key
        is_there = job in key.waiting and request in {None, key.requests[job]}
        self.move(
            lambda state: key_slots.withdraw(state, job, request_id=request),
            (lambda: key.leave_queue(job)) if is_there else None,
        )

    def remove(self, job: str) -> None:
        self.key.active.pop(job, None)
        self.key.renewed.pop(job, None)
        self.key.leave_queue(job)

    @invariant()
    def the_state_says_what_the_model_says(self) -> None:
        key, state = self.key, self.state
        assert [(held.job_id, held.token) for held in state.active] == [*key.active.items()]
        assert [entry.job_id for entry in state.queued] == key.waiting
        assert state.stale_takeovers == key.takeovers
        assert state.free == key.free
        for job, at in key.renewed.items():
            held = state.slot_of(job)
            assert held is not None
            assert (held.heartbeat_at, held.expires_at) == (at, at + TTL)

    @invariant()
    def the_limit_holds_and_no_job_is_there_twice(self) -> None:
        state = self.state
        assert len(state.active) <= state.max_active
        there = [held.job_id for held in state.active] + [each.job_id for each in state.queued]
        assert len(there) == len(set(there))

    @invariant()
    def the_queue_is_in_order_of_creation(self) -> None:
        ages = [entry.created_at for entry in self.state.queued]
        assert ages == sorted(ages)

    @invariant()
    def nothing_else_of_the_state_has_changed(self) -> None:
        rest = replace(self.state, active=(), queued=(), stale_takeovers=0)
        assert rest == key_state(max_active=self.key.max_active, max_queued=self.key.max_queued)
        assert all(entry.unknown == {"from": "elsewhere"} for entry in self.state.queued)


KeyMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=60)
TestKeyMachine = KeyMachine.TestCase
