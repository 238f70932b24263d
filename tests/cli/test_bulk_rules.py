"""The rules of bulk changes: which jobs are meant, how fast, and what the end is worth."""

from __future__ import annotations

import pytest

from jobs_admin.api.errors import Busy, Denied, Invalid, LogFull, NotFound, Unexpected
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.cli.bulk.result import BulkResult, NotDoneReason, not_done
from jobs_admin.cli.bulk.targets import (
    JobSelection,
    JobSelectionByState,
    Matching,
    Named,
    resolve_targets,
)
from jobs_admin.cli.bulk.verbs import CANCEL, DISMISS, REPLAY, RETRY, Verb
from jobs_admin.cli.bulk.words import stop_message, summary_lines
from jobs_admin.cli.exit_codes import Exit, UsageError
from jobs_admin.operations.pace import Pace
from trellis_jobs.errors import JobsError, NotConfirmed, ServiceMissing
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.states import JobState

A, B = "01M7JEEZVJZST3QAV997TP99RY", "01M7JE66KJRSDQGGFE7CRVT7NX"


@pytest.mark.parametrize(
    ("asked", "rest"), [(3, "1 job not processed"), (5, "3 jobs not processed")]
)
def test_what_is_left_is_counted_in_words(asked: int, rest: str) -> None:
    assert (
        stop_message(BulkResult("replay", asked, done=2, stopped="interrupted"))
        == f"stopped: interrupted; {rest}"
    )


@pytest.mark.parametrize(
    ("selection", "advice"),
    [
        (JobSelection(), "give the ids of the jobs to replay"),
        (JobSelection(ids=[A], service="lab"), "remove the ids, or the options"),
        (JobSelection(ids=[A], everything=True), "remove the ids, or the options"),
        (JobSelection(everything=True, error="x"), "remove it, or remove the filters"),
        (JobSelection(ids=["a b"]), "ID or SERVICE/TYPE/ID"),
        (JobSelection(ids=["lab/single/"]), "ID or SERVICE/TYPE/ID"),
        (JobSelection(ids=["lab/single"]), "ID or SERVICE/TYPE/ID"),
        (JobSelectionByState(ids=[A], state=[JobState.DEAD]), "remove the ids"),
        (
            JobSelectionByState(state=[JobState.DEAD, JobState.FAILED]),
            "--state failed: only jobs that are dead can be replayed",
        ),
    ],
)
def test_jobs_are_named_or_filtered_never_both_and_never_neither(
    selection: JobSelection, advice: str
) -> None:
    with pytest.raises(UsageError, match=advice):
        resolve_targets(selection, REPLAY, [])


def test_ids_come_from_the_command_line_and_from_stdin_each_once() -> None:
    stdin = ["\n", f"{B}\n", f"  {A}  \n", f"lab/single/{A}\n"]
    assert resolve_targets(JobSelection(ids=[A, "-"]), CANCEL, stdin) == Named(
        (A, B, JobAddress("lab", "single", A))
    )


@pytest.mark.parametrize(
    ("verb", "states"),
    [
        (CANCEL, {JobState.SCHEDULED, JobState.PENDING, JobState.ACTIVE, JobState.RETRY}),
        (RETRY, {JobState.FAILED, JobState.DEAD}),
        (REPLAY, {JobState.DEAD}),
        (DISMISS, {JobState.DEAD}),
    ],
)
def test_a_filter_means_the_states_in_which_a_job_can_be_changed_so(
    verb: Verb, states: set[JobState]
) -> None:
    matching = resolve_targets(JobSelection(service="lab"), verb, [])
    assert isinstance(matching, Matching)
    assert set(matching.query.state or ()) == states
    everything = resolve_targets(JobSelection(everything=True), verb, [])
    assert everything == Matching(JobFilter(state=verb.states))


def test_a_state_narrows() -> None:
    narrow = resolve_targets(JobSelectionByState(state=[JobState.FAILED]), RETRY, [])
    assert narrow == Matching(JobFilter(state=[JobState.FAILED]), has_states=True)


def test_a_rate_is_kept_evenly_and_what_was_late_is_not_made_up_for_in_a_burst() -> None:
    pace = Pace(10)
    assert [pace.next_at(100.0) for _ in range(3)] == pytest.approx([99.9, 100.0, 100.1])
    late = [pace.next_at(200.0) for _ in range(4)]
    assert late == pytest.approx([199.9, 200.0, 200.1, 200.2])
    free = Pace(None)
    assert max(free.next_at(5.0) for _ in range(100)) <= 5.0


def _refusal(actual: str | None, *, raced: bool = False) -> Invalid:
    error = Invalid("no")
    error.actual, error.raced = actual, raced
    return error


@pytest.mark.parametrize(
    ("error", "reason", "words"),
    [
        (NotFound("x"), NotDoneReason.NOT_FOUND, "not found"),
        (_refusal("completed", raced=True), NotDoneReason.RACED, "another change came first"),
        (_refusal("completed"), NotDoneReason.WRONG_STATE, "already completed"),
        (_refusal(None), NotDoneReason.INVALID, "invalid request"),
        (Denied("x"), NotDoneReason.DENIED, "not permitted"),
        (LogFull("x"), NotDoneReason.LOG_FULL, "log full"),
        (Busy("x"), NotDoneReason.BUSY, "busy"),
        (Unexpected("x"), NotDoneReason.UNCLEAR, "unclear"),
        (NotConfirmed("x", 1.0), NotDoneReason.UNCLEAR, "unclear"),
    ],
)
def test_a_refusal_has_a_reason_that_can_be_counted(
    error: JobsError, reason: NotDoneReason, words: str
) -> None:
    refused = not_done(A, error)
    assert (refused.reason, refused.words) == (reason, words)


def _result(*errors: JobsError, asked: int = 2, by_name: bool = True) -> BulkResult:
    result = BulkResult("cancel", asked, by_name=by_name)
    result.not_done = [not_done(A, error) for error in errors]
    result.done = asked - len(errors)
    return result


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (_result(), Exit.OK),
        (_result(asked=0), Exit.OK),
        (_result(_refusal("dead")), Exit.REFUSED),
        (_result(NotFound("x")), Exit.REFUSED),
        (_result(NotFound("x"), NotFound("x")), Exit.NOT_FOUND),
        (_result(NotFound("x"), NotFound("x"), by_name=False), Exit.REFUSED),
        (_result(NotFound("x"), Unexpected("x")), Exit.UNREACHABLE),
    ],
)
def test_the_exit_code_says_how_it_went(result: BulkResult, code: Exit) -> None:
    assert result.exit is code


def test_what_stopped_it_decides_the_exit_code() -> None:
    interrupted, cut_off = _result(), _result()
    interrupted.stopped = "interrupted"
    cut_off.outage = ServiceMissing("rpc.v1.Jobs.Cancel")
    assert (interrupted.exit, cut_off.exit) == (Exit.REFUSED, Exit.UNREACHABLE)


@pytest.mark.parametrize(
    ("verb", "state", "is_told"),
    [(REPLAY, "failed", True), (REPLAY, "pending", False), (DISMISS, "failed", False)],
)
def test_a_failed_job_that_cannot_be_replayed_is_told_to_be_retried(
    verb: Verb, state: str, is_told: bool
) -> None:
    told = "\n".join(map(str, summary_lines(_result(_refusal(state)), verb)))
    assert ("trellis-jobs jobs retry" in told) is is_told
