"""A job's history as a story: what lay between its events, and for how long."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

from hypothesis import given as forall

from tests.given import (
    NOON,
    after,
    cancelled,
    completed,
    created,
    dead,
    error,
    histories,
    progressed,
    retried,
    retry_scheduled,
    started,
)
from trellis_jobs.model import events as e
from trellis_jobs.model.concurrency import Concurrency
from trellis_jobs.model.job import Entry, fold
from trellis_jobs.model.job_errors import Interruption
from trellis_jobs.model.states import JobState
from trellis_jobs.model.timeline import (
    LogRecord,
    Phase,
    TimelineEntry,
    TimelineSpan,
    job_at,
    timeline,
)

KEYED = Concurrency(key="acme", key_hash="f1")
LATER = after(3600)


def stored(*told: tuple[float, e.Event | str]) -> list[LogRecord]:
    """Each with the second at which the server stored it."""
    return [
        LogRecord(sequence, after(at), Entry(sequence, what) if isinstance(what, e.Event) else what)
        for sequence, (at, what) in enumerate(told, start=7)
    ]


def phases(*told: tuple[float, e.Event | str]) -> list[tuple[Phase, float, float | None]]:
    def second(at: datetime | None) -> float | None:
        return None if at is None else (at - NOON).total_seconds()

    return [
        (each.phase, second(each.begin) or 0, second(each.end))
        for each in timeline(stored(*told), LATER)
        if isinstance(each, TimelineSpan)
    ]


def test_a_job_waits_for_a_worker_and_then_runs() -> None:
    assert phases((0, created()), (3, started()), (5, completed())) == [
        (Phase.WAITING_FOR_WORKER, 0, 3),
        (Phase.RUNNING, 3, 5),
    ]


def test_what_lasts_has_no_end() -> None:
    assert phases((0, created())) == [(Phase.WAITING_FOR_WORKER, 0, None)]
    assert phases((0, created()), (3, started()))[-1] == (Phase.RUNNING, 3, None)


def test_a_wait_for_a_key_is_told_from_the_wait_for_a_worker_before_it() -> None:
    begun = created(concurrency=KEYED)
    waited = started(waited_for_key=timedelta(seconds=2))
    assert phases((0, begun), (3, waited)) == [
        (Phase.WAITING_FOR_WORKER, 0, 1),
        (Phase.WAITING_FOR_KEY, 1, 3),
        (Phase.RUNNING, 3, None),
    ]
    at_once = started(waited_for_key=timedelta())
    assert phases((0, begun), (3, at_once))[0] == (Phase.WAITING_FOR_WORKER, 0, 3)


def test_a_wait_is_never_longer_than_the_time_there_was() -> None:
    waited = started(waited_for_key=timedelta(hours=1))
    assert phases((0, created(concurrency=KEYED)), (3, waited))[0] == (Phase.WAITING_FOR_KEY, 0, 3)


def test_where_the_log_does_not_tell_the_two_apart_neither_is_claimed() -> None:
    begun = created(concurrency=KEYED)
    assert phases((0, begun)) == [(Phase.WAITING, 0, None)]
    assert phases((0, begun), (3, started()))[0] == (Phase.WAITING, 0, 3)
    assert phases((0, begun), (3, cancelled()))[0] == (Phase.WAITING, 0, 3)


def test_a_try_that_is_due_later_is_backed_off_from_and_then_waited_for() -> None:
    retry = retry_scheduled(at=after(2), next_attempt_at=after(7))
    told = [(0, created()), (1, started()), (2, retry), (9, started(tries=2))]
    assert phases(*told)[2:4] == [
        (Phase.BACKING_OFF, 2, 7),
        (Phase.WAITING_FOR_WORKER, 7, 9),
    ]
    (backing_off,) = [
        each
        for each in timeline(stored(*told[:3]), now=after(4))
        if isinstance(each, TimelineSpan) and each.phase is Phase.BACKING_OFF
    ]
    assert (backing_off.end, backing_off.until) == (None, after(7))
    assert backing_off.length(after(4)) == timedelta(seconds=2)


def test_a_worker_whose_clock_is_wrong_backs_off_as_long_as_it_meant_to() -> None:
    an_hour_ahead = retry_scheduled(at=after(3602), next_attempt_at=after(3607))
    told = phases((0, created()), (1, started()), (2, an_hour_ahead), (9, started(tries=2)))
    assert (Phase.BACKING_OFF, 2, 7) in told


def test_a_run_that_was_cut_short_says_by_what() -> None:
    for why in (Interruption.SHUTDOWN, Interruption.WORKER_DEATH):
        lost = retry_scheduled(error=error(type=why), next_attempt_at=None)
        told = timeline(stored((0, created()), (1, started()), (9, lost)), LATER)
        (run,) = [
            each for each in told if isinstance(each, TimelineSpan) and each.phase is Phase.RUNNING
        ]
        assert run.interrupted_by == why
    own_fault = timeline(stored((0, created()), (1, started()), (9, dead())), LATER)
    assert all(each.interrupted_by is None for each in own_fault if isinstance(each, TimelineSpan))


def test_notes_stand_within_their_run_and_do_not_cut_it() -> None:
    told = timeline(
        stored((0, created()), (1, started()), (2, progressed()), (5, completed())), LATER
    )
    assert [_word(each) for each in told] == [
        "created",
        "waiting-for-worker",
        "started",
        "progress",
        "running",
        "completed",
    ]


def _word(each: TimelineEntry | TimelineSpan) -> str:
    if isinstance(each, TimelineSpan):
        return each.phase
    assert each.event is not None
    return each.event.kind


def test_a_job_that_an_operator_retries_was_over_until_then() -> None:
    told = phases((0, created()), (1, started()), (2, dead()), (60, retried()))
    assert told[-2:] == [(Phase.OVER, 2, 60), (Phase.WAITING_FOR_WORKER, 60, None)]


def test_what_does_not_count_is_told_with_the_reason_and_moves_nothing() -> None:
    told = timeline(
        stored((0, created()), (1, "not JSON"), (2, completed()), (3, started())), LATER
    )
    ignored = [each.ignored for each in told if isinstance(each, TimelineEntry)]
    assert ignored == [None, "not JSON", "completed is not legal from pending", None]
    assert phases((0, created()), (2, completed()), (3, started()))[0] == (
        Phase.WAITING_FOR_WORKER,
        0,
        3,
    )


def test_a_job_is_told_as_it_was_at_any_moment() -> None:
    history = stored((0, created()), (3, started()), (5, completed()))
    states = [job.state if (job := job_at(history, after(at))) else None for at in (-1, 0, 4, 5)]
    assert states == [None, JobState.PENDING, JobState.ACTIVE, JobState.COMPLETED]


@forall(histories(max_size=16))
def test_any_history_is_told_whole_without_gaps_or_overlaps(history: list[e.Event]) -> None:
    told = timeline(stored(*((float(at), event) for at, event in enumerate(history))), LATER)
    happened = [each for each in told if isinstance(each, TimelineEntry)]
    assert [each.event for each in happened] == history
    if happened:
        assert happened[-1].job == fold(
            Entry(sequence, event) for sequence, event in enumerate(history, start=7)
        )
    between = [each for each in told if isinstance(each, TimelineSpan)]
    for earlier, later in pairwise(between):
        assert earlier.end == later.begin
