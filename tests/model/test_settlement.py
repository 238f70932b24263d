"""How an attempt ends: one event for the log, one answer for JetStream."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given as forall
from hypothesis import strategies as st

from tests.given import (
    FIRST,
    NOON,
    POLICY,
    after,
    created,
    error,
    notes,
    running,
    started,
    status,
)
from trellis_jobs.errors.handlers import MAX_RETRY_DELAY
from trellis_jobs.model import events as e
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.notes import Progress
from trellis_jobs.model.reducer import Illegal, advance
from trellis_jobs.model.retry import JITTER, RetryPolicy
from trellis_jobs.model.settlement import (
    Ack,
    Fatal,
    Interrupted,
    JobAlreadyEnded,
    Nak,
    NoAck,
    Outcome,
    Retryable,
    Settlement,
    Snoozed,
    Succeeded,
    Superseded,
    Term,
    settle,
    superseded_note,
)
from trellis_jobs.model.states import JobState

SAID = notes("last words", progress=Progress(current=9))


def settled(outcome: Outcome, **changes: object) -> Settlement:
    return settle(outcome, running(**changes), at=after(2), random=0, notes=SAID)


def test_a_result_is_written_down_and_the_work_acknowledged() -> None:
    settlement = settled(Succeeded({"pages": 4}))
    assert isinstance(settlement.event, e.Completed)
    assert settlement.event.result == {"pages": 4}
    assert settlement.answer == Ack()


def test_a_failed_try_is_repeated_after_the_declared_delay() -> None:
    settlement = settled(Retryable(error()))
    assert isinstance(settlement.event, e.RetryScheduled)
    assert settlement.event.next_attempt_at == after(7)
    assert settlement.event.tries == 1
    assert settlement.answer == Nak(timedelta(seconds=5))


def test_a_handler_may_choose_its_own_delay_even_none_at_all() -> None:
    assert settled(Retryable(error(), timedelta(hours=1))).answer == Nak(timedelta(hours=1))
    assert settled(Retryable(error(), timedelta())).answer == Nak()


@pytest.mark.parametrize(
    ("asked", "given"),
    [(timedelta(seconds=-5), timedelta()), (timedelta(days=999_999), MAX_RETRY_DELAY)],
)
def test_an_impossible_delay_is_cut_to_a_possible_one(asked: timedelta, given: timedelta) -> None:
    settlement = settled(Retryable(error(), asked))
    assert isinstance(settlement.event, e.RetryScheduled)
    assert settlement.event.next_attempt_at == after(2) + given
    assert settlement.answer == Nak(given)


def test_the_last_failing_try_is_the_death_of_the_job_with_its_error() -> None:
    settlement = settled(Retryable(error()), tries=3)
    assert isinstance(settlement.event, e.Dead)
    assert settlement.event.error == error()
    assert settlement.answer == Term("dead after 3 tries")


def test_the_last_try_is_the_last_even_if_the_handler_asks_for_another() -> None:
    assert isinstance(settled(Retryable(error(), timedelta(1)), tries=3).event, e.Dead)


def test_a_queue_without_dead_letters_lets_the_job_fail_instead() -> None:
    settlement = settled(Retryable(error()), tries=3, dead_letters=False)
    assert isinstance(settlement.event, e.Failed)
    assert settlement.answer == Ack()


def test_a_failure_for_good_ends_the_job_whatever_tries_are_left() -> None:
    settlement = settled(Fatal(error()))
    assert isinstance(settlement.event, e.Failed)
    assert settlement.event.error == error()
    assert settlement.answer == Ack()


@pytest.mark.parametrize("tries", [1, 3])
def test_a_shutdown_gives_the_try_back_and_hands_the_job_on_at_once(tries: int) -> None:
    settlement = settled(Interrupted(), tries=tries)
    assert isinstance(settlement.event, e.RetryScheduled)
    assert settlement.event.tries == tries - 1
    assert settlement.event.next_attempt_at is None
    assert settlement.event.error.type == "shutdown"
    assert settlement.answer == Nak()


def test_a_job_that_ended_under_its_handler_is_only_acknowledged() -> None:
    assert settled(JobAlreadyEnded()) == Settlement(None, Ack())


def test_a_superseded_attempt_leaves_a_note_and_does_not_touch_the_message() -> None:
    settlement = settled(Superseded())
    assert isinstance(settlement.event, e.StaleCompletionIgnored)
    assert settlement.event.lost_attempt == FIRST.id
    assert settlement.answer == NoAck()


def test_the_note_of_a_late_attempt_names_it_and_says_why() -> None:
    note = superseded_note(running(), "the job is cancelled", NOON)
    assert (note.lost_attempt, note.reason, note.tries) == (FIRST.id, "the job is cancelled", 1)


ENDS: tuple[Outcome, ...] = (
    Succeeded(None),
    Retryable(error()),
    Fatal(error()),
    Interrupted(),
    Snoozed(error(type="snooze"), after(60)),
    Superseded(),
)


@pytest.mark.parametrize("outcome", ENDS, ids=lambda outcome: type(outcome).__name__)
@pytest.mark.parametrize("tries", [1, 3])
@pytest.mark.parametrize("dead_letters", [True, False])
def test_what_an_owner_settles_is_always_legal_in_the_log(
    outcome: Outcome, tries: int, dead_letters: bool
) -> None:
    event = settled(outcome, tries=tries, dead_letters=dead_letters).event
    assert event is not None
    assert not isinstance(advance(status(created(), started(tries=tries)), event), Illegal)


@pytest.mark.parametrize("outcome", ENDS[:5], ids=lambda outcome: type(outcome).__name__)
def test_the_last_notes_ride_on_the_outcome(outcome: Outcome) -> None:
    event = settled(outcome).event
    assert isinstance(event, e.AttemptEvent)
    assert event.notes == SAID


@pytest.mark.parametrize("dead_letters", [True, False])
def test_a_job_gets_exactly_the_tries_it_was_declared_with(dead_letters: bool) -> None:
    kinds = [
        event.kind
        for n in (1, 2, 3)
        if (event := settled(Retryable(error()), tries=n, dead_letters=dead_letters).event)
    ]
    last = EventKind.DEAD if dead_letters else EventKind.FAILED
    assert kinds == [EventKind.RETRY, EventKind.RETRY, last]


DELAYS = st.lists(
    st.timedeltas(min_value=timedelta(), max_value=timedelta(days=400)), min_size=1, max_size=6
)
SPREAD = st.floats(0, 1, exclude_max=True)


@forall(DELAYS, st.integers(1, 12), SPREAD)
def test_a_retry_never_comes_sooner_than_declared_and_at_most_a_tenth_later(
    delays: list[timedelta], tries: int, random: float
) -> None:
    declared = delays[min(tries, len(delays)) - 1]
    delay = RetryPolicy(5, tuple(delays)).delay_after(tries, random)
    assert declared <= delay <= declared * (1 + JITTER) + timedelta(microseconds=1)
    assert JITTER == 0.1


@forall(DELAYS, st.integers(0, 20))
def test_the_last_declared_delay_repeats(delays: list[timedelta], further: int) -> None:
    policy = RetryPolicy(99, tuple(delays))
    assert policy.delay_after(len(delays) + further, 0) == delays[-1]


def test_a_queue_that_declares_no_delays_tries_again_at_once() -> None:
    assert RetryPolicy(3, ()).delay_after(1, 0.5) == timedelta()


def test_the_first_delay_follows_the_first_try() -> None:
    assert [POLICY.delay_after(n, 0) / timedelta(seconds=1) for n in (1, 2, 3)] == [5, 30, 30]


@forall(st.sampled_from(ENDS), st.integers(1, 3), SPREAD)
def test_a_retry_in_the_log_and_the_answer_to_jetstream_name_the_same_moment(
    outcome: Outcome, tries: int, random: float
) -> None:
    settlement = settle(outcome, running(tries=tries), at=NOON, random=random)
    event = settlement.event
    if isinstance(event, e.RetryScheduled):
        assert isinstance(settlement.answer, Nak)
        assert (event.next_attempt_at or NOON) == NOON + settlement.answer.delay


@pytest.mark.parametrize("outcome", ENDS, ids=lambda outcome: type(outcome).__name__)
def test_every_end_but_a_loss_frees_the_job_of_its_owner(outcome: Outcome) -> None:
    event = settled(outcome).event
    assert event is not None
    moved = advance(status(created(), started()), event)
    assert not isinstance(moved, Illegal)
    still_owned = moved.state is JobState.ACTIVE
    assert still_owned == isinstance(outcome, Superseded)
