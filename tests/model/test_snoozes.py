"""A handler snoozes its job: it runs again later, nothing failed, and no try is used."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example
from hypothesis import given as forall
from hypothesis import strategies as st

from tests.given import (
    POLICY,
    REPORT,
    SECOND,
    after,
    cancelled,
    completed,
    created,
    error,
    failed,
    histories,
    job,
    log,
    notes,
    retried,
    retry_scheduled,
    running,
    scheduled,
    snoozed,
    stale_completion_ignored,
    started,
    status,
)
from trellis_jobs import Snooze
from trellis_jobs.errors.handlers import MAX_RETRY_DELAY
from trellis_jobs.model import events as e
from trellis_jobs.model.delivery_decision import DeliveryRef, Expire, RedeliverLater, Start, decide
from trellis_jobs.model.job import Entry, Job
from trellis_jobs.model.job_status import JobStatus
from trellis_jobs.model.reducer import Illegal, advance
from trellis_jobs.model.settlement import Ack, Nak, Settlement, Snoozed, Term, settle
from trellis_jobs.model.states import JobState
from trellis_jobs.model.timeline import LogRecord, Phase, TimelineSpan, timeline
from trellis_jobs.model.values import replace
from trellis_jobs.wire import events as wire
from trellis_jobs.wire import jobs as wire_jobs
from trellis_jobs.wire.fields import dumps, loads

WHY = error(type="snooze", message="the bank is closed")
HISTORY = (created(), started(), snoozed())


def settled(until: float = 62, **changes: Any) -> Settlement:
    outcome = Snoozed(replace(WHY, tries=changes.get("tries", 1)), after(until))
    return settle(outcome, running(**changes), at=after(2), random=0, notes=notes("last words"))


# What the handler raises


def test_a_handler_says_for_how_long_or_until_when_and_why() -> None:
    assert Snooze(for_=90).ends_at(after(0)) == after(90)
    assert Snooze(for_=timedelta(hours=1)).ends_at(after(0)) == after(3600)
    assert Snooze(until=after(60)).ends_at(after(0)) == after(60)
    assert str(Snooze("the bank is closed", for_=1)) == "the bank is closed"
    assert str(Snooze(for_=1, reason="the bank is closed")) == "the bank is closed"
    assert str(Snooze(for_=1)) == "the handler snoozed the job"


@pytest.mark.parametrize("arguments", [{}, {"for_": 1, "until": after(60)}])
def test_a_snooze_without_an_end_or_with_two_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="either for_=… or until=…"):
        Snooze(**arguments)


@pytest.mark.parametrize("until", [datetime(2026, 3, 28), "tomorrow", 60])  # noqa: DTZ001
def test_a_time_without_a_time_zone_is_refused(until: Any) -> None:
    with pytest.raises(TypeError, match="a datetime with a time zone"):
        Snooze(until=until)


@pytest.mark.parametrize("length", ["soon", float("nan"), object()])
def test_a_length_that_is_none_is_refused(length: Any) -> None:
    with pytest.raises(TypeError, match=r"Snooze\(for_=…\) takes seconds or a timedelta"):
        Snooze(for_=length)


# How the attempt ends


def test_a_snooze_gives_the_try_back_and_keeps_the_reason() -> None:
    settlement = settled()
    assert isinstance(settlement.event, e.RetryScheduled)
    assert settlement.event.is_snooze
    assert (settlement.event.tries, settlement.event.next_attempt_at) == (0, after(62))
    assert settlement.event.error == WHY
    assert settlement.event.notes == notes("last words")
    assert settlement.answer == Nak(timedelta(seconds=60))


def test_the_last_try_can_be_snoozed_too() -> None:
    assert isinstance(settled(tries=3).event, e.RetryScheduled)


@pytest.mark.parametrize("until", [2, -3600])
def test_a_snooze_that_is_over_already_runs_the_job_again_at_once(until: float) -> None:
    settlement = settled(until)
    assert isinstance(settlement.event, e.RetryScheduled)
    assert settlement.event.is_snooze
    assert (settlement.event.next_attempt_at, settlement.answer) == (None, Nak())


@pytest.mark.parametrize(
    "until", [datetime.max.replace(tzinfo=UTC), datetime.max.replace(tzinfo=timezone.min)]
)
def test_a_snooze_lasts_a_year_at_most(until: datetime) -> None:
    settlement = settle(Snoozed(WHY, until), running(), at=after(2), random=0)
    assert isinstance(settlement.event, e.RetryScheduled)
    assert settlement.event.next_attempt_at == after(2) + MAX_RETRY_DELAY
    assert settlement.answer == Nak(MAX_RETRY_DELAY)


def test_a_snooze_ends_at_the_deadline_when_the_job_expires() -> None:
    settlement = settled(until=3600, deadline=after(60))
    assert isinstance(settlement.event, e.RetryScheduled)
    assert settlement.event.next_attempt_at == after(60)
    asleep = status(created(deadline=after(60)), started(), settlement.event)
    delivered = DeliveryRef("41:1", 2, asleep.run)
    assert decide(asleep, delivered, now=after(59)) == RedeliverLater(timedelta(seconds=1))
    assert decide(asleep, delivered, now=after(60)) == Expire()


def test_one_snooze_more_than_allowed_fails_the_job_and_says_what_to_do() -> None:
    policy = replace(POLICY, max_snoozes=7)
    assert isinstance(settled(policy=policy, snoozes=6).event, e.RetryScheduled)
    settlement = settled(policy=policy, snoozes=7)
    assert isinstance(settlement.event, e.Failed)
    assert settlement.event.error.type == "snoozes_exhausted"
    for words in ("after 7 snoozes", "max_snoozes", "retry the job", "the bank is closed"):
        assert words in settlement.event.error.message
    assert settlement.answer == Ack()


def test_the_last_delivery_cannot_be_snoozed() -> None:
    settlement = settled(is_last_delivery=True)
    assert isinstance(settlement.event, e.Dead)
    assert settlement.event.error.type == "deliveries_exhausted"
    for words in ("on its last delivery", "delivery_limit", "the bank is closed"):
        assert words in settlement.event.error.message
    assert isinstance(settlement.answer, Term)
    without_dead_letters = settled(is_last_delivery=True, dead_letters=False)
    assert isinstance(without_dead_letters.event, e.Failed)


@forall(
    st.datetimes(timezones=st.just(UTC)),
    st.none() | st.datetimes(timezones=st.just(UTC)),
    st.integers(1, 3),
)
def test_a_snooze_is_always_legal_never_later_than_asked_and_never_in_the_past(
    until: datetime, deadline: datetime | None, tries: int
) -> None:
    outcome = Snoozed(replace(WHY, tries=tries), until)
    settlement = settle(outcome, running(tries=tries, deadline=deadline), at=after(2), random=0)
    assert isinstance(settlement.event, e.RetryScheduled)
    assert isinstance(settlement.answer, Nak)
    before = status(created(), started(tries=tries))
    asleep = advance(before, settlement.event)
    assert not isinstance(asleep, Illegal)
    assert (asleep.tries, asleep.snoozes) == (tries - 1, 1)
    due = settlement.event.next_attempt_at or after(2)
    assert after(2) <= due <= max(after(2), min(until, deadline or until))
    assert settlement.answer.delay == due - after(2)


# What the job knows


def test_a_snoozed_job_has_no_error_and_knows_until_when_and_why() -> None:
    asleep = job(*HISTORY)
    assert (asleep.state, asleep.tries, asleep.snoozes) == (JobState.RETRY, 0, 1)
    assert (asleep.errors, asleep.last_error) == ((), None)
    assert (asleep.run.snoozed_until, asleep.run.snooze_reason) == (after(62), "the bank is closed")
    assert asleep.why == "snoozed: the bank is closed"


def test_a_snooze_after_a_failure_keeps_the_failure() -> None:
    failed_once = (created(), started(), retry_scheduled(), started(attempt=SECOND, tries=2))
    again = snoozed(attempt=SECOND, tries=1, error=replace(WHY, tries=2))
    asleep = job(*failed_once, again)
    assert (asleep.tries, asleep.snoozes) == (1, 1)
    assert asleep.errors == (error(),)


@pytest.mark.parametrize(
    ("then", "snoozes"),
    [
        ((started(attempt=SECOND),), 1),
        ((started(attempt=SECOND), completed(attempt=SECOND)), 1),
        ((started(attempt=SECOND), retry_scheduled(attempt=SECOND)), 1),
        ((started(attempt=SECOND), snoozed(attempt=SECOND)), 2),
        ((cancelled(),), 1),
        ((scheduled(at=after(3)),), 1),
        ((created(at=after(3)),), 1),
    ],
    ids=["runs", "completed", "failed try", "snoozed again", "cancelled", "moved", "released"],
)
def test_snoozes_are_counted_until_the_end_of_the_run(
    then: tuple[e.Event, ...], snoozes: int
) -> None:
    later = job(*HISTORY, *then)
    assert later.snoozes == snoozes
    assert later.run.snooze_reason == "the bank is closed"
    assert (later.run.snoozed_until is not None) == (snoozes == 2)


def test_a_note_leaves_the_job_snoozed() -> None:
    assert job(*HISTORY, stale_completion_ignored()).run.snoozed_until == after(62)


def test_a_retry_by_an_operator_counts_from_the_start() -> None:
    again = job(*HISTORY, started(attempt=SECOND), failed(attempt=SECOND), retried())
    assert again.snoozes == 0
    assert (again.run.snoozed_until, again.run.snooze_reason) == (None, None)
    assert [run.snooze_reason for run in again.earlier_runs] == ["the bank is closed"]


def test_an_exception_that_is_called_snooze_is_a_failure_like_any_other() -> None:
    unlucky = retry_scheduled(error=WHY)
    assert not unlucky.is_snooze
    assert job(created(), started(), unlucky).errors == (WHY,)
    assert job(created(), started(), unlucky).snoozes == 0


def test_a_snoozed_job_is_not_started_early() -> None:
    asleep = status(*HISTORY)
    delivered = DeliveryRef("41:1", 2, asleep.run)
    assert decide(asleep, delivered, now=after(61)) == RedeliverLater(timedelta(seconds=1))
    assert decide(asleep, delivered, now=after(62)) == Start()


# What is stored


@forall(histories())
@example([*HISTORY, started(attempt=SECOND), snoozed(attempt=SECOND), stale_completion_ignored()])
@example([*HISTORY, scheduled(at=after(3)), created(at=after(4)), started(), completed()])
@example([*HISTORY, started(), failed(), retried(), started()])
def test_the_newest_event_has_the_number_of_snoozes_that_the_whole_history_has(
    history: list[e.Event],
) -> None:
    """Otherwise a worker that reads only the newest event would allow more or fewer."""
    known: JobStatus | None = None
    for entry in log(*history):
        moved = advance(known, entry.event)
        if isinstance(moved, Illegal):
            continue
        previous = None if known is None else known.state
        known = moved.recorded_at(entry.sequence)
        read = wire.decode(
            wire.encode(entry.event, moved, previous), expected=REPORT, sequence=entry.sequence
        )
        assert isinstance(read, Entry)
        assert read.status is not None
        assert read.status.snoozes == known.snoozes


@pytest.mark.parametrize("of", [job(*HISTORY), job(*HISTORY, started()), job(created())])
def test_a_job_as_json_is_read_back_with_its_snoozes(of: Job) -> None:
    body = wire_jobs.to_json(of)
    assert ("snoozes" in body) == bool(of.snoozes)
    assert ("snoozedUntil" in body) == (of.run.snoozed_until is not None)
    read = wire_jobs.from_json(loads(dumps(body)))
    assert (read.status, read.run.snoozed_until, read.run.snooze_reason) == (
        of.status,
        of.run.snoozed_until,
        of.run.snooze_reason,
    )


# The timeline


def test_the_timeline_shows_the_wait_as_a_snooze() -> None:
    history = log(*HISTORY, started(at=after(63), attempt=SECOND))
    records = [LogRecord(entry.sequence, entry.event.at, entry) for entry in history]
    spans = [part for part in timeline(records, after(64)) if isinstance(part, TimelineSpan)]
    assert [(span.phase, span.end) for span in spans[1:4]] == [
        (Phase.RUNNING, after(2)),
        (Phase.SNOOZED, after(62)),
        (Phase.WAITING_FOR_WORKER, after(63)),
    ]
    assert spans[1].interrupted_by is None
