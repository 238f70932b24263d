"""The server of the whole model: what it accepts into the log and the queue, and what always holds.

`Habits` are the rules of the protocol that a test may take away, to see that the model notices.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.model.whole_model_world import MAX_SNOOZES, MAX_TRIES, Hand, Message, Steps, World
from trellis_jobs.model import events as e
from trellis_jobs.model.job_status import Head, JobStatus
from trellis_jobs.model.reducer import Illegal, advance
from trellis_jobs.model.settlement import Ack, Nak, Term
from trellis_jobs.model.states import JobState

_MAX_ACTIVE: Final = 1


class Habits(NamedTuple):
    """All of them together are the protocol."""

    guards_appends: bool = True
    acknowledges_last: bool = True
    reads_as_new_as_the_message: bool = True
    releases_after_the_outcome: bool = True
    takes_over_by_later_deliveries_only: bool = True
    fences_before_it_evicts: bool = True
    acquires_before_it_starts: bool = True
    reconciles: bool = True
    tidies_keys: bool = True
    sets_the_alarm_first: bool = True
    waits_for_the_event: bool = True
    asks_the_leader: bool = True
    repairs_alarms: bool = True


def append(
    world: World, habits: Habits, job: int, head: Head | None, event: e.Event
) -> World | None:
    """The world with the event in the log; None: the guard is not the newest sequence."""
    newest = world.heads[job]
    sequence = newest.sequence if newest else 0
    if habits.guards_appends and (head.sequence if head else 0) != sequence:
        return None
    moved = advance(newest.status if newest else None, event)
    assert not isinstance(moved, Illegal), f"an illegal event is in the log: {moved.reason}"
    _check_end(world, job, event, moved)
    after = Head(sequence + 1, moved.recorded_at(sequence + 1))
    heads = (*world.heads[:job], after, *world.heads[job + 1 :])
    running = sum(each is not None and each.status.state is JobState.ACTIVE for each in heads)
    assert running <= _MAX_ACTIVE, "more jobs of the key run than may"
    lagging = newest if world.may("stale") else None
    older = (*world.older[:job], lagging, *world.older[job + 1 :])
    copying = (*world.copying, (job, after)) if isinstance(event, e.Begun) else world.copying
    planned = world.planned
    if isinstance(event, e.Scheduled):
        planned = (*planned[:job], after, *planned[job + 1 :])
    return world._replace(heads=heads, older=older, copying=copying, planned=planned)


def _check_end(world: World, job: int, event: e.Event, moved: JobStatus) -> None:
    before = world.stands(job)
    assert moved.tries <= MAX_TRIES, "more tries than there are"
    if isinstance(event, e.Dead):
        assert before is not None
        assert before.tries >= MAX_TRIES, "dead before the last try"
    if event.is_snooze:
        assert before is not None
        assert moved.tries == before.tries - 1, "a snooze uses a try"
        assert moved.snoozes == before.snoozes + 1 <= MAX_SNOOZES, "more snoozes than there are"
    if isinstance(event, e.Completed):
        assert world.effects[job] == moved.run, "completed, and its effect is missing"
    if moved.is_over and before is not None and not isinstance(event, e.Dismissed):
        is_note = moved == before
        assert is_note or not before.is_over, "a run has two ends"


def queue_steps(world: World) -> Steps:
    """Runs become messages, messages become due; some are doubled or lost."""
    for n, (job, begun) in enumerate(world.copying):
        left = (*world.copying[:n], *world.copying[n + 1 :])
        added = _stored(world._replace(copying=left), Message(job, begun))
        yield f"the server copies run {begun.sequence} of {job}", False, added
        if world.may("duplicate"):
            doubled = _stored(added.spend("duplicate"), Message(job, begun))
            yield f"the server copies run {begun.sequence} of {job} twice", True, doubled
    for m, message in enumerate(world.work):
        if message is None:
            continue
        if world.may("purge"):
            yield f"M{m} is purged", True, world.spend("purge").with_message(m, None)
        if message.out:
            yield from _due_again(world, m, message)
        else:
            yield from _delivered(world, m, message)


def _stored(world: World, message: Message) -> World:
    return world._replace(work=(*world.work, message))


def put_back(world: World, job: int, begun: Head) -> World:
    """Refused where a message of the job is there."""
    if any(message and message.job == job for message in world.work):
        return world
    return _stored(world, Message(job, begun))


def _due_again(world: World, m: int, message: Message) -> Steps:
    is_held = any(
        hand and (hand.message, hand.number) == (m, message.number) for hand in world.workers
    )
    due = world.with_message(m, message._replace(out=False))
    if not is_held:
        yield f"M{m} is due again", False, due
    elif world.may("timeout"):
        yield f"M{m} is due again though held", True, due.spend("timeout")


def _delivered(world: World, m: int, message: Message) -> Steps:
    if None not in world.workers:
        return
    number = message.number + 1
    run = message.begun.status.run
    phase = "decide" if number == 1 else "read"
    hand = Hand(m, number, message.job, run, phase, message.begun)
    taken = world.with_message(m, message._replace(number=number, out=True))
    index = world.workers.index(None)
    yield f"a worker gets M{m} for the {number}. time", False, taken.with_hand(index, hand)


def answered(world: World, index: int, hand: Hand) -> World:
    """A late answer counts, too: the server does not ask whose it is."""
    message = world.work[hand.message]
    done = world.with_hand(index, None)
    if message is None:
        return done
    if isinstance(hand.answer, Nak):
        return done.with_message(hand.message, message._replace(out=False))
    return acknowledged(done, hand) if isinstance(hand.answer, Ack | Term) else done


def acknowledged(world: World, hand: Hand) -> World:
    done = world.with_message(hand.message, None)
    _check_not_lost(done, hand.job)
    return done


def _check_not_lost(world: World, job: int) -> None:
    status = world.stands(job)
    if status is None or status.is_over or any(name == "purge" for name, _ in world.faults):
        return
    if status.state is JobState.SCHEDULED:
        return  # it waits for its time, and has no message
    runs = [each.begun.status.run for each in world.work if each and each.job == job]
    runs += [begun.status.run for each, begun in world.copying if each == job]
    assert status.run in runs, "the only message of an unfinished job was removed"
