"""What happens to messages that were delivered to a worker that died."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from jobs_admin.maintenance.abandoned_deliveries import Decision, decide
from tests.given import NOON, REPORT, created
from trellis_jobs.jetstream.work.messages import WorkMessage
from trellis_jobs.model.attempts import Attempt
from trellis_jobs.model.job_status import JobStatus
from trellis_jobs.model.states import OVER, JobState
from trellis_jobs.model.values import replace as changed

DIED_BEFORE = NOON + timedelta(minutes=1)
MESSAGE = WorkMessage(REPORT, 7, created(), 3, "3@1", NOON)
PENDING = JobStatus(JobState.PENDING, 0, 3, 7)


def test_a_job_that_never_started_gets_another_message() -> None:
    assert decide(MESSAGE, PENDING, DIED_BEFORE) is Decision.REPLACE


@pytest.mark.parametrize("state", sorted(OVER))
def test_the_message_of_a_job_that_ended_is_deleted(state: JobState) -> None:
    assert decide(MESSAGE, changed(PENDING, state=state), DIED_BEFORE) is Decision.DELETE


def test_the_message_of_an_earlier_run_is_deleted() -> None:
    assert decide(MESSAGE, changed(PENDING, run=9), DIED_BEFORE) is Decision.DELETE


def test_the_message_of_a_running_job_is_kept() -> None:
    owner = Attempt("a", "i", "3@1", 1)
    active = changed(PENDING, state=JobState.ACTIVE, owner=owner)
    assert decide(MESSAGE, active, DIED_BEFORE) is Decision.KEEP


def test_a_message_that_is_newer_than_the_verdict_is_kept() -> None:
    later = replace(MESSAGE, stored_at=DIED_BEFORE)
    assert decide(later, PENDING, DIED_BEFORE) is Decision.KEEP


@pytest.mark.parametrize(
    ("minutes", "decision"), [(0, Decision.REPLACE), (1, Decision.KEEP), (9, Decision.KEEP)]
)
def test_a_job_that_waits_for_its_next_try_is_kept(minutes: int, decision: Decision) -> None:
    due = NOON + timedelta(minutes=minutes)
    waiting = changed(PENDING, state=JobState.RETRY, next_attempt_at=due)
    assert decide(MESSAGE, waiting, DIED_BEFORE) is decision
