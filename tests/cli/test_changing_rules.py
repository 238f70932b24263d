"""The rules of bulk changes: which jobs are meant, how fast, and what the end is worth."""

from __future__ import annotations

import pytest

from jobs_admin.api.client import JobQuery
from jobs_admin.api.errors import Denied, Invalid, NotFound, Unexpected
from jobs_admin.cli.bulk.result import Tally, Why, refusal_of
from jobs_admin.cli.bulk.targets import Choice, ChoiceOfStates, Matching, Named, choose
from jobs_admin.cli.bulk.verbs import CANCEL, DISMISS, REPLAY, RETRY, Verb
from jobs_admin.cli.bulk.words import left, summary
from jobs_admin.cli.exit_codes import Exit, Misused
from jobs_admin.operations.pace import Pace
from trellis_jobs.errors import JobsError, NotConfirmed, ServiceMissing
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.states import JobState

A, B = "01M7JEEZVJZST3QAV997TP99RY", "01M7JE66KJRSDQGGFE7CRVT7NX"


@pytest.mark.parametrize(
    ("asked", "rest"), [(3, "1 job left as it was"), (5, "3 jobs left as they were")]
)
def test_what_is_left_is_counted_in_words(asked: int, rest: str) -> None:
    assert (
        left(Tally("replay", asked, done=2, stopped="interrupted"))
        == f"stopped: interrupted; {rest}"
    )


@pytest.mark.parametrize(
    ("choice", "advice"),
    [
        (Choice(), "say which jobs to replay"),
        (Choice(ids=[A], service="lab"), "leave out the ids, or the options"),
        (Choice(ids=[A], everything=True), "leave out the ids, or the options"),
        (Choice(everything=True, error="x"), "leave it out, or the filters"),
        (Choice(ids=["a b"]), "ID or SERVICE/TYPE/ID"),
        (Choice(ids=["lab/single/"]), "ID or SERVICE/TYPE/ID"),
        (Choice(ids=["lab/single"]), "ID or SERVICE/TYPE/ID"),
        (ChoiceOfStates(ids=[A], state=[JobState.DEAD]), "leave out the ids"),
        (ChoiceOfStates(state=[JobState.DEAD, JobState.FAILED]), "a job that is failed cannot be"),
    ],
)
def test_jobs_are_named_or_filtered_never_both_and_never_neither(
    choice: Choice, advice: str
) -> None:
    with pytest.raises(Misused, match=advice):
        choose(choice, REPLAY, [])


def test_ids_come_from_the_command_line_and_from_stdin_each_once() -> None:
    said = ["\n", f"{B}\n", f"  {A}  \n", f"lab/single/{A}\n"]
    assert choose(Choice(ids=[A, "-"]), CANCEL, said) == Named(
        (A, B, JobAddress("lab", "single", A))
    )


@pytest.mark.parametrize(
    ("verb", "states"),
    [
        (CANCEL, {JobState.PENDING, JobState.ACTIVE, JobState.RETRY}),
        (RETRY, {JobState.FAILED, JobState.DEAD}),
        (REPLAY, {JobState.DEAD}),
        (DISMISS, {JobState.DEAD}),
    ],
)
def test_a_filter_means_the_states_in_which_a_job_can_be_changed_so(
    verb: Verb, states: set[JobState]
) -> None:
    matching = choose(Choice(service="lab"), verb, [])
    assert isinstance(matching, Matching)
    assert set(matching.query.state or ()) == states
    everything = choose(Choice(everything=True), verb, [])
    assert everything == Matching(JobQuery(state=verb.states))


def test_a_state_narrows() -> None:
    narrow = choose(ChoiceOfStates(state=[JobState.FAILED]), RETRY, [])
    assert narrow == Matching(JobQuery(state=[JobState.FAILED]), has_states=True)


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
    ("error", "why", "reason"),
    [
        (NotFound("x"), Why.NOT_FOUND, "not found"),
        (_refusal("completed", raced=True), Why.RACED, "raced"),
        (_refusal("completed"), Why.WRONG_STATE, "is completed"),
        (_refusal(None), Why.INVALID, "invalid"),
        (Denied("x"), Why.DENIED, "denied"),
        (Unexpected("x"), Why.UNCLEAR, "unclear"),
        (NotConfirmed("x", 1.0), Why.UNCLEAR, "unclear"),
    ],
)
def test_a_refusal_has_a_reason_that_can_be_counted(
    error: JobsError, why: Why, reason: str
) -> None:
    not_done = refusal_of(A, error)
    assert (not_done.why, not_done.reason) == (why, reason)


def _tally(*errors: JobsError, asked: int = 2, by_name: bool = True) -> Tally:
    tally = Tally("cancel", asked, by_name=by_name)
    tally.not_done = [refusal_of(A, error) for error in errors]
    tally.done = asked - len(errors)
    return tally


@pytest.mark.parametrize(
    ("tally", "code"),
    [
        (_tally(), Exit.OK),
        (_tally(asked=0), Exit.OK),
        (_tally(_refusal("dead")), Exit.REFUSED),
        (_tally(NotFound("x")), Exit.REFUSED),
        (_tally(NotFound("x"), NotFound("x")), Exit.NOT_FOUND),
        (_tally(NotFound("x"), NotFound("x"), by_name=False), Exit.REFUSED),
        (_tally(NotFound("x"), Unexpected("x")), Exit.UNREACHABLE),
    ],
)
def test_the_exit_code_says_how_it_went(tally: Tally, code: Exit) -> None:
    assert tally.exit is code


def test_what_stopped_it_decides_the_exit_code() -> None:
    interrupted, cut_off = _tally(), _tally()
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
    told = "\n".join(map(str, summary(_tally(_refusal(state)), verb)))
    assert ("trellis-jobs jobs retry" in told) is is_told
