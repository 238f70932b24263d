"""What a worker does with one delivery of a keyed job, in the order of the design (4 and 5).

Acquire, then `started`; outcome, then release, then answer; and to evict: fence, then drop.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from datetime import datetime, timedelta

from tests.given import (
    after,
    completed,
    dead,
    failed,
    retry_scheduled,
    stale,
    stale_completion_ignored,
    started,
)
from tests.model.key_world import INTERVAL, TTL, Message, Process, Steps, Worker, World
from trellis_jobs.model import events as e
from trellis_jobs.model.attempts import Attempt
from trellis_jobs.model.delivery_decision import (
    DeliveryRef,
    Discard,
    Ignore,
    MarkDead,
    RedeliverLater,
    Start,
    TakeOver,
    decide,
)
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.keys import slots as key_slots
from trellis_jobs.model.keys.fencing import EndAsStale, NoFence, fence, is_takeover
from trellis_jobs.model.keys.slots import Acquired, Held, SlotLost
from trellis_jobs.model.keys.state import Slot
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import replace

_TTL = timedelta(seconds=TTL)
_AT_ONCE = after(0)

Done = Generator[str, None, bool]


@dataclass
class Plan:
    """`trusting`: believes that nothing has happened since the message was first sent."""

    ends_in: JobState = JobState.COMPLETED
    beats: int = 1
    may_overtake: bool = False
    trusting: bool = False
    backoff: float = 0


@dataclass
class Lease:
    """Once it has lapsed on its holder's own clock, it is never renewed and never used."""

    token: str
    confirmed_at: float
    has_lapsed: bool = False


class Errand(Process):
    def __init__(self, world: World, worker: Worker, message: Message, plan: Plan) -> None:
        self.world = world
        self.worker = worker
        self.message = message
        self.plan = plan
        self.job = message.job
        self.number = message.deliver(world.now)
        run = message.begun.sequence
        self.delivered = DeliveryRef(f"run {run}", self.number, run)
        self.lease: Lease | None = None
        self.handles = False
        newest = world.log.head(self.job)
        assert newest is not None
        self.head: Head = message.begun if plan.trusting else newest
        super().__init__(self._attend())

    @property
    def has_a_live_handler(self) -> bool:
        return self.handles and self.lease is not None and not self.lease.has_lapsed

    def keep_in_touch(self) -> None:
        self.message.keep(self.number, self.world.now)
        self.worker.observer = self.worker.observer.observe(self.world.key, self._clock())
        lease = self.lease
        if lease is None or lease.has_lapsed:
            return
        moved = self.world.apply(
            lambda state: key_slots.renew(state, lease.token, at=self._wall(), ttl=_TTL)
        )
        lease.has_lapsed = isinstance(moved, SlotLost)
        lease.confirmed_at = self._clock()

    def watch_the_clock(self) -> None:
        if self.lease and self._clock() - self.lease.confirmed_at >= TTL - INTERVAL:
            self.lease.has_lapsed = True

    def _clock(self) -> float:
        return self.world.now + self.worker.offset

    def _wall(self) -> datetime:
        return after(self.world.now + self.worker.skew)

    def _say(self, event: e.Event) -> bool:
        """Append on top of what we know; a refusal makes us look."""
        appended = self.world.log.append(self.job, event, after=self.head.sequence)
        newest = appended or self.world.log.head(self.job)
        assert newest is not None
        self.head = newest
        return appended is not None

    def _attend(self) -> Steps:
        is_done = False
        while not is_done:
            yield "decide"
            match decide(self.head.status, self.delivered, now=self._wall()):
                case Start():
                    is_done = yield from self._start()
                case TakeOver(lost) | MarkDead(lost) as decision:
                    yield from self._end_in_the_name_of(
                        lost, for_good=isinstance(decision, MarkDead)
                    )
                case RedeliverLater(delay):
                    yield "put back"
                    self.message.put_back(self.number, self.world.now + delay.total_seconds())
                    is_done = True
                case Discard():
                    yield from self._leave_no_trace()
                    yield "acknowledge"
                    self.message.acknowledge()
                    is_done = True
                case Ignore():
                    is_done = True

    def _end_in_the_name_of(self, lost: Attempt | None, *, for_good: bool) -> Steps:
        tries = self.head.status.tries
        yield "take over"
        said = dead if for_good else retry_scheduled
        self._say(said(attempt=lost, tries=tries))

    def _start(self) -> Done:
        """True when the delivery is dealt with; otherwise decide again."""
        name = self.world.new_name("attempt")
        attempt = Attempt(name, self.worker.name, self.delivered.work, self.number)
        if not (yield from self._acquire(attempt)):
            return False
        yield "append started"
        if not self._say(started(attempt=attempt, tries=self.head.status.tries + 1)):
            yield "release what is not needed"
            self._release(attempt, again_at=self.head.status.next_attempt_at or _AT_ONCE)
            return False
        self.handles = True
        yield from (f"beat {number}" for number in range(self.plan.beats))
        return (yield from self._settle(attempt))

    def _acquire(self, attempt: Attempt) -> Done:
        while True:
            yield "acquire"
            slot = self._slot(attempt)
            moved = self.world.acquire(
                slot, self.message.waiting, may_overtake=self.plan.may_overtake
            )
            match moved:
                case Acquired():
                    self.lease = Lease(attempt.id, self._clock())
                    return True
                case Held(slot=own):
                    yield "fence the own slot"
                    self._say(_note(own))
                    return False
                case _:
                    self.worker.observer = self.worker.observer.observe(moved.state, self._clock())
                    for over in self.worker.observer.expired(TTL, self._clock()):
                        yield from self._evict(over)

    def _settle(self, attempt: Attempt) -> Done:
        """The outcome counts only while the attempt owns its job; a note may come in between."""
        yield "append outcome"
        self.handles = False
        while self.head.status.owner == attempt:
            outcome = self._outcome(attempt)
            if self._say(outcome):
                assert attempt.id not in self.world.evicted, "an outcome after an eviction"
                yield from self._finish(attempt, outcome)
                return True
        yield "release what was lost"
        self._release(attempt)
        yield "note the loss"
        if self.head.status.is_over:
            return False
        self.world.log.append(
            self.job, stale_completion_ignored(lost_attempt=attempt.id), after=self.head.sequence
        )
        return True

    def _finish(self, attempt: Attempt, outcome: e.Event) -> Steps:
        yield "release"
        retry_at = outcome.next_attempt_at if isinstance(outcome, e.RetryScheduled) else None
        self._release(attempt, again_at=retry_at)
        yield "answer"
        if retry_at is None:
            self.message.acknowledge()
        else:
            self.message.put_back(self.number, (retry_at - after(0)).total_seconds())

    def _outcome(self, attempt: Attempt) -> e.Event:
        tries = self.head.status.tries
        assert self.lease is not None
        if self.plan.ends_in is JobState.FAILED:
            return failed(attempt=attempt, tries=tries)
        if self.plan.ends_in is JobState.COMPLETED and not self.lease.has_lapsed:
            return completed(attempt=attempt, tries=tries)
        if self.head.status.tries_exhausted:
            return dead(attempt=attempt, tries=tries)
        at = after(self.world.now + self.plan.backoff)
        return retry_scheduled(attempt=attempt, tries=tries, next_attempt_at=at)

    def _release(self, attempt: Attempt, *, again_at: datetime | None = None) -> None:
        """A job that does not end with its slot keeps its place in the queue."""
        self.lease = None
        again = None if again_at is None else replace(self.message.waiting, not_before=again_at)
        self.world.apply(lambda state: key_slots.release(state, attempt.id, requeue=again))

    def _evict(self, slot: Slot) -> Steps:
        while True:
            yield "look before the fence"
            head = self.world.log.head(slot.job_id)
            verdict = fence(head.status if head else None, slot.token)
            if head is None or isinstance(verdict, NoFence):
                is_stale = is_takeover(head.status if head else None)
                break
            yield "fence"
            is_stale = isinstance(verdict, EndAsStale)
            told = _end(head) if is_stale else _note(slot)
            if self.world.log.append(slot.job_id, told, after=head.sequence):
                break
        yield "drop"
        self.world.evict(slot, counted=is_stale)

    def _leave_no_trace(self) -> Steps:
        """Look at the key first: what is there later may be of a new run."""
        yield "look at the key"
        seen = self.world.key
        yield "look at the log"
        status = self.world.log.status(self.job)
        yield "forget"
        if status is not None and status.is_over:
            self.world.apply(lambda state: key_slots.forget(state, self.job, seen=seen))

    def _slot(self, attempt: Attempt) -> Slot:
        wall = self._wall()
        return Slot(
            job_id=self.job,
            token=attempt.id,
            instance=self.worker.name,
            started_at=wall,
            heartbeat_at=wall,
            expires_at=wall + _TTL,
            tries=self.head.status.tries + 1,
            since=self.head.sequence,
        )


def _note(slot: Slot) -> e.Event:
    return stale_completion_ignored(lost_attempt=slot.token)


def _end(head: Head) -> e.Event:
    return stale(attempt=head.status.owner, tries=head.status.tries)
