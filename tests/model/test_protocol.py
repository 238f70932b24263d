"""Every interleaving, within bounds, of two workers, a work queue and a guarded log, without keys.

The rules under test are the product's own (`decide`, `advance`, `settle`); only the server is a
model here: a list that takes an append whose guard is right, and messages that are redelivered.
Faults have budgets: crashes, deliveries that come again although they are held, cancels,
operator retries, duplicate messages, failing handlers, shutdowns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from tests.given import CONTEXT, NOON, REPORT
from tests.model.exploration import Exploration
from trellis_jobs.model import events as e
from trellis_jobs.model.attempts import Attempt
from trellis_jobs.model.delivery_decision import (
    Decision,
    DeliveryRef,
    Discard,
    Ignore,
    MarkDead,
    Start,
    TakeOver,
    decide,
)
from trellis_jobs.model.job_errors import JobError
from trellis_jobs.model.job_status import Head, JobStatus
from trellis_jobs.model.reducer import Illegal, advance
from trellis_jobs.model.retry import RetryPolicy
from trellis_jobs.model.settlement import (
    Ack,
    Answer,
    AttemptContext,
    Interrupted,
    Nak,
    Outcome,
    Retryable,
    Succeeded,
    Term,
    settle,
    superseded_note,
)
from trellis_jobs.model.states import JobState

MAX_TRIES = 2
LATER = NOON + timedelta(hours=1)
ERROR = JobError(type="RuntimeError", message="boom", tries=1, at=NOON)


@dataclass(frozen=True)
class Message:
    """One work message; `number` counts its deliveries, `out` says that one is under way."""

    run: int
    number: int = 0
    out: bool = False


@dataclass(frozen=True)
class Worker:
    """What one worker has in hand: a delivery, then an attempt, then an answer to give."""

    message: int | None = None
    number: int = 0
    run: int = 0
    head: Head | None = None
    attempt: Attempt | None = None
    tries: int = 0
    outcome: Outcome | None = None
    answer: Answer | None = None


IDLE = Worker()


@dataclass(frozen=True)
class World:
    log: tuple[JobStatus, ...]
    messages: tuple[Message | None, ...]
    workers: tuple[Worker, ...] = (IDLE, IDLE)
    faults: tuple[tuple[str, int], ...] = ()
    attempts: int = 0

    @property
    def head(self) -> Head:
        return Head(len(self.log), self.log[-1])

    def may(self, fault: str) -> bool:
        return dict(self.faults).get(fault, 0) > 0

    def spend(self, fault: str) -> World:
        left = tuple((name, n - (name == fault)) for name, n in self.faults)
        return replace(self, faults=left)

    def with_worker(self, index: int, worker: Worker) -> World:
        workers = (*self.workers[:index], worker, *self.workers[index + 1 :])
        return replace(self, workers=workers)

    def with_message(self, index: int, message: Message | None) -> World:
        messages = (*self.messages[:index], message, *self.messages[index + 1 :])
        return replace(self, messages=messages)


def append(world: World, head: Head | None, event: e.Event) -> World | None:
    """The server: takes the event if the guard is right, and refuses it (None) otherwise."""
    if head is None or head.sequence != len(world.log):
        return None
    status = advance(head.status, event)
    assert isinstance(status, JobStatus), f"an illegal event was to be appended: {status}"
    if isinstance(event, e.Dead):
        assert head.status.tries >= MAX_TRIES, "dead before the last try"
    if status.is_over and status is not head.status:
        assert not head.status.is_over, "a second end of the same run"
    return replace(world, log=(*world.log, status.recorded_at(len(world.log) + 1)))


def said(tries: int) -> e.EventFields:
    return {"job": REPORT, "context": CONTEXT, "at": NOON, "tries": tries}


def steps(world: World) -> Iterator[tuple[str, World]]:
    yield from deliveries(world)
    yield from outsiders(world)
    for index, worker in enumerate(world.workers):
        if worker.message is None:
            continue
        if world.may("crash"):
            yield f"W{index} crashes", world.spend("crash").with_worker(index, IDLE)
        if worker.answer is not None:
            yield f"W{index} answers", answered(world, index, worker)
        elif worker.outcome is not None:
            yield f"W{index} settles", settled(world, index, worker)
        elif worker.attempt is not None:
            yield from performed(world, index, worker)
        else:
            yield f"W{index} claims", claimed(world, index, worker)


def deliveries(world: World) -> Iterator[tuple[str, World]]:
    for m, message in enumerate(world.messages):
        if message is None:
            continue
        held = any(w.message == m and w.number == message.number for w in world.workers)
        if message.out and not held:
            yield f"M{m} is due again", world.with_message(m, replace(message, out=False))
        elif message.out and world.may("timeout"):
            again = world.spend("timeout").with_message(m, replace(message, out=False))
            yield f"M{m} is due again though held", again
        if not message.out:
            number = message.number + 1
            for index, worker in enumerate(world.workers):
                if worker == IDLE:
                    begun = JobStatus(JobState.PENDING, 0, MAX_TRIES, message.run)
                    got = Worker(m, number, message.run, Head(message.run, begun))
                    taken = world.with_message(m, replace(message, number=number, out=True))
                    yield f"W{index} gets M{m} for the {number}.", taken.with_worker(index, got)


def outsiders(world: World) -> Iterator[tuple[str, World]]:
    status = world.log[-1]
    if world.may("cancel") and not status.is_over:
        cancelled = append(world, world.head, e.Cancelled(**said(status.tries)))
        assert cancelled is not None
        yield "cancelled", cancelled.spend("cancel")
    if world.may("retried") and status.state in (JobState.FAILED, JobState.DEAD):
        event = e.Retried(**said(0), payload={}, max_tries=MAX_TRIES)
        retried = append(world, world.head, event)
        assert retried is not None
        again = replace(retried, messages=(*retried.messages, Message(len(retried.log))))
        yield "retried", again.spend("retried")
    if world.may("duplicate"):
        doubled = replace(world, messages=(*world.messages, Message(status.run)))
        yield "its message is doubled", doubled.spend("duplicate")


def claimed(world: World, index: int, worker: Worker) -> World:
    """One step of worker/claim.py: decide on what is known, append, or look again."""
    head = worker.head
    assert head is not None
    decision = decide(head.status, _delivered(worker), now=LATER)
    if isinstance(decision, Discard):
        return world.with_worker(index, replace(worker, answer=Ack()))
    if isinstance(decision, Ignore):
        return world.with_worker(index, IDLE)
    attempt = Attempt(f"A{world.attempts}", f"W{index}", f"M{worker.message}", worker.number)
    done = append(world, head, _event_for(decision, head.status, attempt))
    if done is None:
        return world.with_worker(index, replace(worker, head=world.head))
    worker = replace(worker, head=done.head)
    if isinstance(decision, Start):
        done = replace(done, attempts=done.attempts + 1)
        worker = replace(worker, attempt=attempt, tries=done.log[-1].tries)
    elif isinstance(decision, MarkDead):
        worker = replace(worker, answer=Term("dead"))
    return done.with_worker(index, worker)


def _delivered(worker: Worker) -> DeliveryRef:
    return DeliveryRef(f"M{worker.message}", worker.number, worker.run)


def _event_for(decision: Decision, status: JobStatus, attempt: Attempt) -> e.Event:
    match decision:
        case Start():
            return e.Started(**said(status.tries + 1), attempt=attempt)
        case TakeOver(lost):
            return e.RetryScheduled(**said(status.tries), attempt=lost, error=ERROR)
        case MarkDead(lost):
            return e.Dead(**said(status.tries), attempt=lost, error=ERROR)
        case _:
            pytest.fail(f"time stands still here, so {decision} makes no sense")


def performed(world: World, index: int, worker: Worker) -> Iterator[tuple[str, World]]:
    done = world.with_worker(index, replace(worker, outcome=Succeeded("done")))
    yield f"W{index}'s handler succeeds", done
    for fault, outcome in (("fail", Retryable(ERROR)), ("shutdown", Interrupted())):
        if world.may(fault):
            ended = world.spend(fault).with_worker(index, replace(worker, outcome=outcome))
            yield f"W{index}: {fault}", ended


def settled(world: World, index: int, worker: Worker) -> World:
    """worker/attempt.py: append the outcome where the job stands, or leave a note."""
    assert worker.attempt is not None
    assert worker.head is not None
    assert worker.outcome is not None
    policy = RetryPolicy(MAX_TRIES, ())
    running = AttemptContext(REPORT, CONTEXT, worker.attempt, worker.tries, MAX_TRIES, policy)
    settlement = settle(worker.outcome, running, at=NOON, random=0)
    assert settlement.event is not None
    done = append(world, worker.head, settlement.event)
    if done is not None:
        return done.with_worker(index, replace(worker, head=done.head, answer=settlement.answer))
    if not isinstance(advance(world.log[-1], settlement.event), Illegal):
        return world.with_worker(index, replace(worker, head=world.head))
    noted = append(world, world.head, superseded_note(running, "too late", NOON))
    assert noted is not None
    after = replace(worker, answer=Ack()) if world.log[-1].is_over else IDLE
    return noted.with_worker(index, after)


def answered(world: World, index: int, worker: Worker) -> World:
    assert worker.message is not None
    message = world.messages[worker.message]
    done = world.with_worker(index, IDLE)
    if message is None:
        return done
    if isinstance(worker.answer, Nak):
        return done.with_message(worker.message, replace(message, out=False))
    done = done.with_message(worker.message, None)
    others = [m for m in done.messages if m is not None and m.run == done.log[-1].run]
    assert done.log[-1].is_over or others, "the only message of an unfinished job was removed"
    return done


CREATED = World((JobStatus(JobState.PENDING, 0, MAX_TRIES, 1),), (Message(1),))

MIXES = [
    {"crash": 2, "timeout": 1, "fail": 1},
    {"timeout": 2, "fail": 1, "shutdown": 1},
    {"crash": 1, "cancel": 1, "timeout": 1},
    {"crash": 1, "duplicate": 1, "fail": 1},
    {"fail": 2, "retried": 1, "crash": 1},
    {"fail": 2, "retried": 1, "timeout": 1},
    {"duplicate": 1, "timeout": 1, "cancel": 1},
    {"shutdown": 1, "crash": 1, "fail": 1},
]


@pytest.mark.parametrize("faults", MIXES, ids=", ".join)
def test_no_interleaving_ends_a_run_twice_loses_a_job_or_gets_stuck(faults: dict[str, int]) -> None:
    start = replace(CREATED, faults=tuple(sorted(faults.items())))
    worlds = explore(start)
    resting = [w for w in worlds if w.workers == (IDLE, IDLE) and not any(w.messages)]
    assert resting, "nothing ever came to rest"
    assert all(world.log[-1].is_over for world in resting)
    assert all(world.log[-1].tries <= MAX_TRIES for world in worlds)


def explore(start: World) -> Iterable[World]:
    return Exploration[World](_bounded).run(start).states


def _bounded(world: World) -> Iterator[tuple[str, bool, World]]:
    return ((step, False, after) for step, after in steps(world) if _is_bounded(after))


def _is_bounded(world: World) -> bool:
    return all(m is None or m.number <= 6 for m in world.messages) and len(world.log) <= 14
