"""What the log must be told before the slot of a lease that is over goes to another."""

from __future__ import annotations

import pytest

from tests.given import FIRST, SECOND, status_in
from trellis_jobs.model.keys.fencing import EndAsStale, LeaveNote, NoFence, fence, is_takeover
from trellis_jobs.model.states import OVER, JobState


def test_a_job_that_runs_under_the_slot_is_ended() -> None:
    assert fence(status_in(JobState.ACTIVE), FIRST.id) == EndAsStale()


def test_a_job_of_a_foreign_runtime_is_taken_to_run_under_the_slot() -> None:
    assert fence(status_in(JobState.ACTIVE, owner=None), "any-token") == EndAsStale()


def test_a_job_that_runs_in_another_attempt_is_left_alone() -> None:
    assert fence(status_in(JobState.ACTIVE), SECOND.id) == NoFence()


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.RETRY])
def test_a_start_that_may_still_come_is_made_to_fail(state: JobState) -> None:
    assert fence(status_in(state), FIRST.id) == LeaveNote()


@pytest.mark.parametrize("state", sorted(OVER - {JobState.STALE}))
def test_a_job_that_is_over_needs_no_fence(state: JobState) -> None:
    assert fence(status_in(state), FIRST.id) == NoFence()


def test_a_job_that_was_ended_as_stale_still_counts_as_taken_over() -> None:
    assert fence(status_in(JobState.STALE), FIRST.id) == NoFence()
    counted = [state for state in JobState if is_takeover(status_in(state))]
    assert (counted, is_takeover(None)) == ([JobState.STALE], False)


def test_a_job_of_which_the_log_knows_nothing_needs_no_fence() -> None:
    assert fence(None, FIRST.id) == NoFence()
