"""Every event in every state. The grid is the design's table, spelled a second time on purpose:
a change of the rules has to be made in both places, knowingly."""

from __future__ import annotations

from typing import Final

import pytest

from tests.given import (
    FIRST,
    LEADING_TO,
    OF_KIND,
    ONE_OF_EACH,
    SECOND,
    completed,
    created,
    dead,
    failed,
    heartbeat,
    log,
    logged,
    progressed,
    retry_scheduled,
    stale,
    started,
    status,
)
from trellis_jobs.model import events as e
from trellis_jobs.model.events import AttemptEvent, EventKind
from trellis_jobs.model.job import Ignored, reduce
from trellis_jobs.model.reducer import NOTES, RULES, Illegal, advance
from trellis_jobs.model.states import LIVE, OVER, JobState
from trellis_jobs.model.values import replace

# One letter a state, "-" for no job at all; "=" stays where it is, "." is not legal.
LETTERS: Final = {
    "-": None,
    "W": JobState.SCHEDULED,
    "P": JobState.PENDING,
    "A": JobState.ACTIVE,
    "R": JobState.RETRY,
    "C": JobState.COMPLETED,
    "F": JobState.FAILED,
    "X": JobState.CANCELLED,
    "E": JobState.EXPIRED,
    "K": JobState.SKIPPED,
    "S": JobState.STALE,
    "D": JobState.DEAD,
    "M": JobState.DISMISSED,
}
GRID: Final = """
from                    -  W  P  A  R  C  F  X  E  K  S  D  M
scheduled               W  W  W  .  W  .  .  .  .  .  .  .  .
created                 P  P  P  .  P  .  .  .  .  .  .  .  .
started                 .  .  A  .  A  .  .  .  .  .  .  .  .
progress                .  .  .  =  .  .  .  .  .  .  .  .  .
logged                  .  .  .  =  .  .  .  .  .  .  .  .  .
heartbeat               .  .  .  =  .  .  .  .  .  .  .  .  .
staleCompletionIgnored  .  =  =  =  =  =  =  =  =  =  =  =  =
retry                   .  .  .  R  .  .  .  .  .  .  .  .  .
completed               .  .  .  C  .  .  .  .  .  .  .  .  .
failed                  .  .  .  F  .  .  .  .  .  .  .  .  .
stale                   .  .  .  S  .  .  .  .  .  .  .  .  .
cancelled               .  X  X  X  X  .  .  .  .  .  .  .  .
expired                 .  E  E  E  E  .  .  .  .  .  .  .  .
skipped                 .  K  K  .  K  .  .  .  .  .  .  .  .
dead                    .  .  D  D  D  .  .  .  .  .  .  .  .
retried                 P  .  .  .  .  .  P  .  .  .  .  P  .
dismissed               .  .  .  .  .  .  .  .  .  .  .  M  .
"""


def cells() -> list[tuple[str, str, str]]:
    header, *rows = [line.split() for line in GRID.strip().splitlines()]
    return [
        (kind, origin, outcome)
        for kind, *outcomes in rows
        for origin, outcome in zip(header[1:], outcomes, strict=True)
    ]


def test_the_grid_has_every_event_and_every_state() -> None:
    assert {kind for kind, _, _ in cells()} == {kind.value for kind in EventKind}
    assert set(LETTERS.values()) == {None, *JobState}
    assert len(cells()) == 17 * 13


def test_every_kind_of_event_has_one_rule_one_class_and_one_example() -> None:
    assert set(RULES) == set(EventKind) == {event.kind for event in ONE_OF_EACH}
    assert len(ONE_OF_EACH) == len(EventKind)


@pytest.mark.parametrize(("kind", "origin", "outcome"), cells())
def test_an_event_said_by_the_owner_does_what_the_grid_says(
    kind: str, origin: str, outcome: str
) -> None:
    state = LETTERS[origin]
    before = None if state is None else status(*LEADING_TO[state])
    event = OF_KIND[EventKind(kind)]
    if isinstance(event, e.Dead) and state is not JobState.ACTIVE:
        event = replace(event, attempt=None)  # a job that does not run has no owner
    moved = advance(before, event)
    if outcome == ".":
        assert isinstance(moved, Illegal)
        assert moved.reason == f"{kind} is not legal from {state or 'nothing'}"
    elif outcome == "=":
        assert moved == before
    else:
        assert not isinstance(moved, Illegal)
        assert moved.state is LETTERS[outcome]


@pytest.mark.parametrize("state", JobState)
def test_a_state_is_reached_by_its_shortest_history(state: JobState) -> None:
    assert status(*LEADING_TO[state]).state is state


def test_the_states_are_live_or_over_never_both() -> None:
    assert {JobState.SCHEDULED, JobState.PENDING, JobState.RETRY, JobState.ACTIVE} == LIVE
    assert set(JobState) == LIVE | OVER
    assert not LIVE & OVER


def test_four_kinds_of_event_are_notes_and_never_move_a_job() -> None:
    assert {"progress", "logged", "heartbeat", "staleCompletionIgnored"} == NOTES


@pytest.mark.parametrize("history", [(created(),), (created(), started(), retry_scheduled())])
def test_an_attempt_that_is_over_cannot_mark_the_job_dead(history: tuple[e.Event, ...]) -> None:
    assert isinstance(advance(status(*history), dead()), Illegal)


OWNED = (progressed(), logged(), heartbeat(), retry_scheduled(), completed(), failed())
ACTIVE = (created(), started())


@pytest.mark.parametrize("said", [*OWNED, stale(), dead()], ids=lambda event: event.kind)
def test_only_the_attempt_that_owns_the_job_is_heard(said: AttemptEvent) -> None:
    before = status(created(), started(attempt=SECOND, tries=2))
    assert said.attempt == FIRST
    verdict = advance(before, said)
    assert isinstance(verdict, Illegal)
    assert "does not own the job" in verdict.reason


@pytest.mark.parametrize("said", OWNED, ids=lambda event: event.kind)
def test_no_attempt_is_not_the_owner_of_a_job_that_has_one(said: AttemptEvent) -> None:
    anonymous = OF_KIND[said.kind]
    assert isinstance(anonymous, AttemptEvent)
    assert isinstance(advance(status(*ACTIVE), _without_attempt(anonymous)), Illegal)


@pytest.mark.parametrize("said", [dead(attempt=None), stale(attempt=None)], ids=["dead", "stale"])
def test_a_verdict_on_the_job_itself_names_no_attempt_and_counts(said: AttemptEvent) -> None:
    moved = advance(status(*ACTIVE), said)
    assert not isinstance(moved, Illegal)
    assert moved.is_over


def test_a_takeover_ends_the_lost_attempt_in_its_name_then_starts_the_next() -> None:
    taken = status(*ACTIVE, retry_scheduled(attempt=FIRST), started(attempt=SECOND, tries=2))
    assert (taken.state, taken.owner, taken.tries) == (JobState.ACTIVE, SECOND, 2)


def test_a_second_start_needs_a_retry_in_between() -> None:
    verdict = advance(status(*ACTIVE), started(attempt=SECOND, tries=2))
    assert verdict == Illegal("started is not legal from active")


def test_a_foreign_runtime_may_start_a_redelivered_job_with_no_event_in_between() -> None:
    restarted = status(created(), started(attempt=None), started(attempt=None, tries=2))
    assert (restarted.state, restarted.owner, restarted.tries) == (JobState.ACTIVE, None, 2)


@pytest.mark.parametrize("said", OWNED, ids=lambda event: event.kind)
def test_a_foreign_runtime_that_names_no_attempts_speaks_for_the_job_it_started(
    said: AttemptEvent,
) -> None:
    foreign = status(created(), started(attempt=None))
    assert not isinstance(advance(foreign, _without_attempt(said)), Illegal)
    assert isinstance(advance(foreign, said), Illegal)


def test_an_event_that_does_not_count_is_told_with_its_reason_and_changes_nothing() -> None:
    [late] = log(completed())
    assert reduce(None, late) == Ignored(None, "completed is not legal from nothing")


def _without_attempt(event: AttemptEvent) -> AttemptEvent:
    return replace(event, attempt=None)
