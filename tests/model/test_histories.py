"""What a folded history says about its job, and what holds for every history there can be."""

from __future__ import annotations

from hypothesis import given as forall
from hypothesis import strategies as st

from tests.given import (
    ANY_EVENT,
    CONTEXT,
    LEADING_TO,
    NOTE,
    ONE_OF_EACH,
    SECOND,
    after,
    cancelled,
    completed,
    created,
    dead,
    dismissed,
    error,
    expired,
    failed,
    histories,
    job,
    log,
    logged,
    notes,
    progressed,
    retried,
    retry_scheduled,
    stale_completion_ignored,
    started,
    status,
)
from trellis_jobs.model import events as e
from trellis_jobs.model.job import ERRORS_KEPT, LOGS_KEPT, Applied, Job, fold, reduce
from trellis_jobs.model.job_errors import bounded
from trellis_jobs.model.job_status import JobStatus
from trellis_jobs.model.notes import Progress
from trellis_jobs.model.reducer import Illegal, advance
from trellis_jobs.model.states import JobState

BY_AN_OPERATOR = {e.EventKind.RETRIED, e.EventKind.DISMISSED}


def test_a_job_that_ran_clean_is_completed_with_its_result() -> None:
    done = job(created(), started(), completed())
    assert (done.state, done.result, done.tries) == (JobState.COMPLETED, {"pages": 4}, 1)
    assert (done.payload, done.max_tries, done.id) == ({"doc": "d-1"}, 3, created().job.job_id)
    assert done.is_over
    assert done.why is None


def test_a_job_remembers_when_it_was_created_began_started_and_ended() -> None:
    done = job(created(), started(), progressed(), completed(at=after(5)))
    assert (done.created_at, done.updated_at) == (after(0), after(5))
    assert (done.run.began_at, done.run.started_at, done.run.ended_at) == (
        after(0),
        after(1),
        after(5),
    )


def test_what_happens_after_the_end_does_not_move_the_end() -> None:
    over = job(created(), started(), dead(at=after(5)), dismissed(at=after(50)))
    assert over.run.ended_at == after(5)
    assert over.updated_at == after(50)


def test_every_error_is_kept_in_order_and_the_last_one_says_why() -> None:
    first, second = error(message="503"), error(message="504", tries=2)
    gone = job(
        created(),
        started(),
        retry_scheduled(error=first),
        started(attempt=SECOND, tries=2),
        failed(attempt=SECOND, tries=2, error=second),
    )
    assert gone.errors == (first, second)
    assert gone.last_error == second
    assert gone.why == "HTTPError: 504"


def test_only_the_newest_errors_of_a_job_that_fails_forever_are_kept() -> None:
    tries = range(1, ERRORS_KEPT + 6)
    again = [(started(tries=n), retry_scheduled(tries=n, error=error(tries=n))) for n in tries]
    worn = job(created(max_tries=99), *(event for pair in again for event in pair))
    assert [each.tries for each in worn.errors] == list(tries)[-ERRORS_KEPT:]
    assert ERRORS_KEPT >= 10


def test_only_the_newest_log_lines_of_a_talkative_job_are_kept() -> None:
    said = [notes(*(f"{page}/{line}" for line in range(100))) for page in range(60)]
    talkative = job(created(), started(), *(logged(notes=page) for page in said))
    lines = [line for page in said for line in page.lines]
    assert list(talkative.logs) == lines[-LOGS_KEPT:]
    few = job(created(), started(), *(logged(notes=page) for page in said[:10]))
    assert list(few.logs) == lines[:1000]


def test_a_cancelled_job_tells_the_reason_it_was_given() -> None:
    assert job(created(), cancelled(reason="not needed")).why == "not needed"
    assert job(created(), expired(reason=None)).why is None


def test_a_dismissed_job_that_was_given_no_reason_still_tells_its_error() -> None:
    assert job(created(), started(), dead(), dismissed(reason=None)).why == (
        "HTTPError: 503 from upstream"
    )


def test_progress_is_the_newest_and_log_lines_add_up() -> None:
    noted = job(
        created(),
        started(),
        logged(notes=notes("one")),
        progressed(notes=notes(progress=Progress(current=1))),
        progressed(notes=notes("two", progress=Progress(current=2))),
        logged(notes=notes("three")),
    )
    assert noted.progress == Progress(current=2)
    assert [line.message for line in noted.logs] == ["one", "two", "three"]


def test_progress_without_a_line_and_a_line_without_progress_both_count() -> None:
    noted = job(created(), started(), progressed(notes=notes(progress=Progress(current=1))))
    assert noted.progress == Progress(current=1)
    assert job(created(), started(), logged(notes=notes("one"))).progress is None


def test_notes_that_ride_on_the_outcome_are_not_lost() -> None:
    last_words = notes("done", progress=Progress(current=9, total=9))
    done = job(created(), started(), completed(notes=last_words))
    assert [line.message for line in done.logs] == ["done"]
    assert done.progress == Progress(current=9, total=9)


def test_an_operators_retry_begins_a_fresh_run_and_keeps_the_old_one() -> None:
    story = (created(), started(), progressed(), logged(), failed())
    fresh, before = job(*story, retried(payload={"doc": "d-2"})), job(*story)
    assert (fresh.state, fresh.tries, fresh.errors, fresh.logs) == (JobState.PENDING, 0, (), ())
    assert (fresh.result, fresh.progress, fresh.payload) == (None, None, {"doc": "d-2"})
    assert fresh.earlier_runs == (before.run,)
    assert fresh.created_at == before.created_at


def test_runs_pile_up_oldest_first() -> None:
    twice = job(
        created(), started(), failed(), retried(), started(tries=1), dead(), retried(at=after(20))
    )
    assert [run.began_at for run in twice.earlier_runs] == [after(0), after(9)]
    assert twice.run.began_at == after(20)


def test_a_run_is_named_after_the_sequence_of_the_event_that_began_it() -> None:
    assert job(created(), started()).status.run == 11
    assert job(created(), started(), failed(), retried(), started()).status.run == 20


def test_a_retry_gives_a_fresh_deadline_and_fresh_tries() -> None:
    story = (created(deadline=after(60)), started(), failed())
    fresh = job(*story, retried(deadline=after(900), max_tries=7))
    assert (fresh.deadline, fresh.max_tries) == (after(900), 7)


def test_a_history_whose_first_runs_were_purged_begins_with_retried() -> None:
    begun = job(retried(at=after(9)), started())
    assert (begun.state, begun.created_at, begun.earlier_runs) == (
        JobState.ACTIVE,
        after(9),
        (),
    )
    assert begun.context == CONTEXT


def test_a_job_begins_with_scheduled_created_or_retried() -> None:
    beginnings = {event.kind for event in ONE_OF_EACH if fold(log(event)) is not None}
    assert beginnings == {e.EventKind.SCHEDULED, e.EventKind.CREATED, e.EventKind.RETRIED}


def test_a_verdict_by_a_process_that_missed_the_last_start_takes_no_try_away() -> None:
    assert job(created(), started(), cancelled(tries=0)).tries == 1


def test_a_shutdown_gives_the_try_back() -> None:
    assert job(created(), started(), retry_scheduled(tries=0)).tries == 0


def test_a_job_that_waits_for_its_next_try_says_until_when_and_has_no_owner() -> None:
    waiting = status(created(), started(), retry_scheduled(next_attempt_at=after(7)))
    assert (waiting.next_attempt_at, waiting.owner) == (after(7), None)
    assert status(*LEADING_TO[JobState.ACTIVE]).next_attempt_at is None


def test_a_note_after_the_end_does_not_hide_the_end() -> None:
    assert job(created(), started(), completed(), stale_completion_ignored()).is_over


def test_of_a_text_that_is_too_long_both_ends_are_kept_and_the_cut_is_told() -> None:
    assert bounded("abcdef", 6) == "abcdef"
    assert bounded("abcdef", 4) == "ab\n… 2 characters …\nef"


def states_along(history: list[e.Event]) -> list[tuple[Job | None, e.Event, Job]]:
    """Each event that counted, with the job before and after it."""
    steps: list[tuple[Job | None, e.Event, Job]] = []
    before: Job | None = None
    for entry in log(*history):
        verdict = reduce(before, entry)
        if isinstance(verdict, Applied):
            steps.append((before, entry.event, verdict.job))
        before = verdict.job
    return steps


@forall(st.data(), histories())
def test_notes_mixed_in_anywhere_change_neither_state_nor_tries_nor_owner(
    data: st.DataObject, history: list[e.Event]
) -> None:
    plain = [event for event in history if not _is_note(event)]
    mixed = list(plain)
    for _ in range(data.draw(st.integers(1, 6))):
        mixed.insert(data.draw(st.integers(0, len(mixed))), data.draw(NOTE))
    assert _status_after(mixed) == _status_after(plain)


@forall(histories(max_size=30))
def test_a_run_ends_at_most_once(history: list[e.Event]) -> None:
    ends: dict[int, int] = {}
    for before, _, now in states_along(history):
        if before is not None and not before.is_over and now.is_over:
            ends[now.status.run] = ends.get(now.status.run, 0) + 1
    assert all(times == 1 for times in ends.values())


@forall(histories(max_size=30))
def test_only_an_operator_moves_a_job_that_is_over(history: list[e.Event]) -> None:
    for before, event, now in states_along(history):
        if before is not None and before.is_over and event.kind not in BY_AN_OPERATOR:
            assert now.status == before.status


@forall(histories(max_size=30))
def test_a_job_has_an_owner_only_while_it_is_active(history: list[e.Event]) -> None:
    for _, _, now in states_along(history):
        assert now.status.owner is None or now.state is JobState.ACTIVE


@forall(histories(max_size=30))
def test_an_event_that_is_ignored_leaves_the_job_exactly_as_it_was(
    history: list[e.Event],
) -> None:
    counted = [event for _, event, _ in states_along(history)]
    full, short = fold(log(*history)), fold(log(*counted))
    assert (full is None) == (short is None)
    if full is not None and short is not None:
        assert full.run == short.run
        assert full.earlier_runs == short.earlier_runs
        assert (full.state, full.tries) == (short.state, short.tries)


@forall(histories(), ANY_EVENT)
def test_no_event_in_any_standing_is_an_accident(history: list[e.Event], event: e.Event) -> None:
    assert isinstance(advance(_status_after(history), event), JobStatus | Illegal)


@forall(histories(max_size=30))
def test_the_earlier_runs_are_exactly_the_runs_that_ended_before_a_retry(
    history: list[e.Event],
) -> None:
    again = [
        event
        for before, event, _ in states_along(history)
        if before is not None and isinstance(event, e.Retried)
    ]
    folded = fold(log(*history))
    assert len(again) == (0 if folded is None else len(folded.earlier_runs))


def _is_note(event: e.Event) -> bool:
    return isinstance(event, e.Progressed | e.Logged | e.Heartbeat | e.StaleCompletionIgnored)


def _status_after(history: list[e.Event]) -> JobStatus | None:
    """Without sequences, which notes would shift."""
    stands: JobStatus | None = None
    for event in history:
        moved = advance(stands, event)
        stands = stands if isinstance(moved, Illegal) else moved
    return stands
