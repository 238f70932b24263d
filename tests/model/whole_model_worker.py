"""A worker of the model, step by step: claim.py, slot_acquirer.py, attempt.py, coordinator.py.

Between any two steps it may crash, or be paused until the others have done everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tests.given import CONTEXT, NOON, error, slot, waiting
from tests.model.whole_model_server import Habits, acknowledged, answered, append
from tests.model.whole_model_world import (
    JOBS,
    MAX_SNOOZES,
    MAX_TRIES,
    Hand,
    Holder,
    Step,
    Steps,
    World,
    now,
    said,
)
from trellis_jobs.model import events as e
from trellis_jobs.model.attempts import Attempt
from trellis_jobs.model.delivery_decision import (
    DeliveryRef,
    Discard,
    Expire,
    Ignore,
    MarkDead,
    RedeliverLater,
    Start,
    TakeOver,
    decide,
)
from trellis_jobs.model.job_errors import Interruption
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.keys import slots as key_slots
from trellis_jobs.model.keys.fencing import EndAsStale, LeaveNote, fence
from trellis_jobs.model.reducer import Illegal, advance
from trellis_jobs.model.retry import RetryPolicy
from trellis_jobs.model.settlement import (
    Ack,
    Answer,
    AttemptContext,
    Interrupted,
    Nak,
    NoAck,
    Retryable,
    Snoozed,
    Succeeded,
    Term,
    settle,
    superseded_note,
)

_POLICY: Final = RetryPolicy(MAX_TRIES, (), MAX_SNOOZES)
_LATEST: Final = 99


class WorkerStep:
    """What one of the two workers may do next with what it has in hand."""

    def __init__(self, world: World, habits: Habits, index: int, hand: Hand) -> None:
        self.world = world
        self.habits = habits
        self.index = index
        self.hand = hand

    def all(self) -> Steps:
        if self.world.may("crash"):
            gone = self.world.spend("crash").with_hand(self.index, None)
            yield self._named("crashes"), True, gone
        yield from _PHASES[self.hand.phase](self)

    def _named(self, what: str) -> str:
        return f"who has M{self.hand.message}/{self.hand.number} {what}"

    def _then(self, what: str, world: World | None = None, **changes: object) -> Step:
        after = (world or self.world).with_hand(self.index, self.hand._replace(**changes))  # type: ignore[arg-type]
        return self._named(what), False, after

    def _newest(self) -> Head:
        newest = self.world.heads[self.hand.job]
        assert newest is not None
        return newest

    def _append(self, event: e.Event) -> World | None:
        return append(self.world, self.habits, self.hand.job, self.hand.head, event)

    def _say(self, what: str, event: e.Event, *, phase: str, answer: Answer | None = None) -> Step:
        """Append, and go on; a refusal makes it look, and decide again."""
        done = self._append(event)
        if done is None:
            return self._then(f"is refused: {what}", phase="decide", head=self._newest())
        head = done.heads[self.hand.job]
        return self._then(what, done, phase=phase, head=head, answer=answer)

    def read(self) -> Steps:
        yield self._then("reads the log", phase="decide", head=self._newest())
        older = self.world.older[self.hand.job]
        floor = self.hand.run if self.habits.reads_as_new_as_the_message else 0
        if self.world.may("stale") and older is not None and older.sequence >= floor:
            name, _, after = self._then("reads from a replica", phase="decide", head=older)
            yield name, True, after.spend("stale")

    def decide(self) -> Steps:
        hand, status = self.hand, self.hand.head.status
        number = hand.number if self.habits.takes_over_by_later_deliveries_only else _LATEST
        delivered = DeliveryRef(f"M{hand.message}", number, hand.run)
        match decide(status, delivered, now=now(self.world)):
            case Start() if self.habits.acquires_before_it_starts:
                yield from self._acquire()
            case Start():
                yield self._then("needs no slot", phase="start", attempt=self._attempt())
            case TakeOver() | MarkDead() | Expire() as verdict:
                yield self._verdict(verdict)
            case Discard():
                phase = "look" if status.is_over else "answer"
                yield self._then("drops it", phase=phase, answer=Ack())
            case Ignore():
                yield self._then("leaves it alone", phase="answer", answer=NoAck())
            case RedeliverLater():
                yield self._then("puts it back", phase="answer", answer=Nak())

    def _verdict(self, verdict: TakeOver | MarkDead | Expire) -> Step:
        fields = said(self.hand.job, self.hand.head.status.tries)
        match verdict:
            case TakeOver(lost):
                is_newer = lost is not None and lost.delivery > self.hand.number
                assert not is_newer, "an older delivery takes the job over"
                event = e.RetryScheduled(**fields, attempt=lost, error=error())
                return self._say("takes over", event, phase="decide")
            case MarkDead(lost):
                dead = e.Dead(**fields, attempt=lost, error=error())
                return self._say("buries", dead, phase="look", answer=Term("dead"))
            case Expire():
                return self._say("expires", e.Expired(**fields), phase="look", answer=Ack())

    def _attempt(self) -> Attempt:
        name = f"A{self.hand.message}.{self.hand.number}.{self.hand.head.sequence}"
        return Attempt(name, "pod", f"M{self.hand.message}", self.hand.number)

    def _acquire(self) -> Steps:
        attempt, hand = self._attempt(), self.hand
        own = slot(JOBS[hand.job].job_id, attempt.id, since=hand.head.sequence, started_at=NOON)
        place = waiting(JOBS[hand.job].job_id)
        for may_overtake in (False, True):
            moved = key_slots.acquire(self.world.key, own, place, may_overtake=may_overtake)
            match moved:
                case key_slots.Acquired(state):
                    done = self.world.with_key(state)
                    yield self._then("has a slot", done, phase="start", attempt=attempt)
                    return
                case key_slots.Held(_, rival):
                    yield from self._outdate(rival.token)
                    return
                case key_slots.AllSlotsTaken():
                    yield from self._evictions()
                    return

    def _outdate(self, token: str) -> Steps:
        """Two that live could do this to each other again and again, so it is counted."""
        note = e.StaleCompletionIgnored(
            **said(self.hand.job, self.hand.head.status.tries), lost_attempt=token, reason="note"
        )
        name, _, after = self._say("outdates its own slot", note, phase="decide")
        if not self.world.is_held(token):
            yield name, False, after
        elif self.world.may("rivalry"):
            yield name, True, after.spend("rivalry")

    def _evictions(self) -> Steps:
        """Of slots whose leases are over; that of a living holder only by mistake."""
        for held in self.world.slots:
            phase = "fence" if self.habits.fences_before_it_evicts else "drop"
            name, _, after = self._then(f"finds {held.token} over", phase=phase, evicts=held.token)
            if not self.world.is_held(held.token):
                yield name, False, after
            elif self.world.may("expiry"):
                yield f"{name}, wrongly", True, after.spend("expiry")

    def fence(self) -> Steps:
        held = next((s for s in self.world.slots if s.token == self.hand.evicts), None)
        if held is None:
            yield self._then("finds it gone", phase="decide", evicts="")
            return
        done = self._fenced(held)
        yield self._then("fences", done, phase="drop")

    def _fenced(self, held: Holder) -> World:
        head = self.world.heads[held.job]
        verdict = fence(head.status if head else None, held.token)
        if head is None or not isinstance(verdict, EndAsStale | LeaveNote):
            return self.world
        fields = said(held.job, head.status.tries)
        told: e.Event = e.StaleCompletionIgnored(**fields, lost_attempt=held.token, reason="note")
        if isinstance(verdict, EndAsStale):
            told = e.Stale(**fields, attempt=head.status.owner, error=error())
        done = append(self.world, self.habits, held.job, head, told)
        assert done is not None
        return done

    def drop(self) -> Steps:
        state = key_slots.drop(self.world.key, self.hand.evicts, counted=False).state
        yield self._then("frees the slot", self.world.with_key(state), phase="decide", evicts="")

    def start(self) -> Steps:
        attempt, tries = self.hand.attempt, self.hand.head.status.tries + 1
        done = self._append(e.Started(**said(self.hand.job, tries), attempt=attempt))
        if done is None:
            yield self._then("is refused: starts", phase="unslot")
        else:
            yield self._then("starts", done, phase="run", head=done.heads[self.hand.job])

    def unslot(self) -> Steps:
        done = self._released(requeue=True)
        head = self._newest()
        yield self._then("gives the slot back", done, phase="decide", attempt=None, head=head)

    def _released(self, *, requeue: bool) -> World:
        assert self.hand.attempt is not None
        place = waiting(JOBS[self.hand.job].job_id) if requeue else None
        return self.world.with_key(
            key_slots.release(self.world.key, self.hand.attempt.id, requeue=place).state
        )

    def run(self) -> Steps:
        phase = "outcome" if self.habits.acknowledges_last else "early"
        phase = phase if self.habits.releases_after_the_outcome else "early release"
        effects = tuple(
            self.hand.run if job == self.hand.job else run
            for job, run in enumerate(self.world.effects)
        )
        done = self.world._replace(effects=effects)
        yield self._then("does it", done, phase=phase, outcome=Succeeded("done"))
        snooze = error(type=Interruption.SNOOZE, tries=self.hand.head.status.tries)
        for fault, outcome in (
            ("fail", Retryable(error())),
            ("shutdown", Interrupted()),
            ("snooze", Snoozed(snooze, NOON)),
        ):
            if self.world.may(fault):
                name, _, after = self._then(f"does not: {fault}", phase=phase, outcome=outcome)
                yield name, True, after.spend(fault)

    def early(self) -> Steps:
        gone = acknowledged(self.world, self.hand)
        yield self._then("acknowledges before the outcome", gone, phase="outcome")

    def early_release(self) -> Steps:
        yield self._then("releases", self._released(requeue=False), phase="outcome")

    def outcome(self) -> Steps:
        """worker/attempt.py and voice.py: where the job stands, or a note that it was too late."""
        hand = self.hand
        assert hand.attempt is not None
        assert hand.outcome is not None
        status = hand.head.status
        running = AttemptContext(
            JOBS[hand.job],
            CONTEXT,
            hand.attempt,
            status.tries,
            MAX_TRIES,
            _POLICY,
            snoozes=status.snoozes,
        )
        settlement = settle(hand.outcome, running, at=NOON, random=0)
        assert settlement.event is not None
        done = self._append(settlement.event)
        newest = self._newest()
        if done is not None:
            head = done.heads[hand.job]
            yield self._then("settles", done, phase="release", head=head, answer=settlement.answer)
        elif not isinstance(advance(newest.status, settlement.event), Illegal):
            yield self._then("is refused, and is still the owner", head=newest)
        else:
            note = superseded_note(running, "too late", NOON)
            noted = append(self.world, self.habits, hand.job, newest, note)
            answer = Ack() if newest.status.is_over else NoAck()
            yield self._then("is too late", noted, phase="release", answer=answer)

    def release(self) -> Steps:
        done = self._released(requeue=isinstance(self.hand.answer, Nak))
        yield self._then("releases", done, phase="answer", attempt=None)

    def look(self) -> Steps:
        yield self._then("looks at the key", phase="forget", seen=self.world.slots)

    def forget(self) -> Steps:
        """The log is asked after the key: a slot of a new run is newer than what was seen."""
        state, job_id = self.world.key, JOBS[self.hand.job].job_id
        seen = self.world._replace(slots=self.hand.seen).key
        if self._newest().status.is_over:
            state = key_slots.forget(state, job_id, seen=seen).state
        yield self._then("leaves nothing in the key", self.world.with_key(state), phase="answer")

    def answer(self) -> Steps:
        yield self._named("answers"), False, answered(self.world, self.index, self.hand)


_PHASES: Final[Mapping[str, Callable[[WorkerStep], Steps]]] = {
    "read": WorkerStep.read,
    "decide": WorkerStep.decide,
    "start": WorkerStep.start,
    "unslot": WorkerStep.unslot,
    "fence": WorkerStep.fence,
    "drop": WorkerStep.drop,
    "run": WorkerStep.run,
    "early": WorkerStep.early,
    "early release": WorkerStep.early_release,
    "outcome": WorkerStep.outcome,
    "release": WorkerStep.release,
    "look": WorkerStep.look,
    "forget": WorkerStep.forget,
    "answer": WorkerStep.answer,
}
