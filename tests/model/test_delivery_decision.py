"""What a worker does with a delivery, given where the log says the job stands."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.given import (
    FIRST,
    NOON,
    SECOND,
    WORK,
    after,
    created,
    retry_scheduled,
    started,
    status,
    status_in,
)
from trellis_jobs.model.delivery_decision import (
    DeliveryRef,
    Discard,
    Expire,
    Ignore,
    MarkDead,
    RedeliverLater,
    Start,
    TakeOver,
    decide,
)
from trellis_jobs.model.states import OVER, JobState

RUN = status().run
BY_A_FOREIGN_RUNTIME = (created(), started(attempt=None))


def delivery(number: int = 1, *, work: str = WORK, run: int = RUN) -> DeliveryRef:
    return DeliveryRef(work, number, run)


@pytest.mark.parametrize(
    ("later", "is_newer"),
    [
        (delivery(3), True),
        (delivery(2), False),
        (delivery(1), False),
        (delivery(1, work="another"), True),
        (delivery(1, work="another", run=RUN + 1), True),
        (delivery(9, work="another", run=RUN - 1), False),
    ],
)
def test_the_newer_of_two_deliveries_is_told_by_message_run_and_number(
    later: DeliveryRef, is_newer: bool
) -> None:
    assert later.supersedes(delivery(2)) is is_newer


def test_a_pending_job_is_started() -> None:
    assert decide(status(), delivery(), now=NOON) == Start()


def test_a_pending_job_is_started_however_often_it_was_delivered_before() -> None:
    assert decide(status(), delivery(77), now=NOON) == Start()


@pytest.mark.parametrize("state", sorted(OVER))
def test_a_job_that_is_over_needs_no_work(state: JobState) -> None:
    assert decide(status_in(state), delivery(), now=NOON) == Discard(f"the job is {state}")


@pytest.mark.parametrize("state", JobState)
def test_a_message_of_another_run_is_dropped_whatever_the_job_does(state: JobState) -> None:
    decision = decide(status_in(state), delivery(run=RUN + 1), now=NOON)
    assert isinstance(decision, Discard)
    assert "another run" in decision.reason


def test_a_redelivery_takes_the_job_over_from_the_attempt_that_was_lost() -> None:
    assert decide(status_in(JobState.ACTIVE), delivery(2), now=NOON) == TakeOver(FIRST)


@pytest.mark.parametrize("number", [1, 2])
def test_an_older_or_the_same_delivery_leaves_the_newer_owner_alone(number: int) -> None:
    owned = status(created(), started(attempt=SECOND))
    assert isinstance(decide(owned, delivery(number), now=NOON), Ignore)


@pytest.mark.parametrize("number", [1, 2, 9])
def test_a_duplicate_of_the_work_message_is_dropped_while_the_job_runs(number: int) -> None:
    decision = decide(status_in(JobState.ACTIVE), delivery(number, work="99@1"), now=NOON)
    assert isinstance(decision, Discard)
    assert "another message" in decision.reason


def test_a_first_delivery_of_a_job_that_a_foreign_runtime_runs_is_a_duplicate() -> None:
    assert isinstance(decide(status(*BY_A_FOREIGN_RUNTIME), delivery(1), now=NOON), Discard)


def test_a_redelivery_of_a_job_that_a_foreign_runtime_lost_is_taken_over() -> None:
    decision = decide(status(*BY_A_FOREIGN_RUNTIME), delivery(2), now=NOON)
    assert decision == TakeOver(None)


def test_a_job_whose_last_try_was_lost_is_buried_not_tried_again() -> None:
    last = status(created(max_tries=1), started())
    assert decide(last, delivery(2), now=NOON) == MarkDead(FIRST)


def test_the_last_try_is_not_buried_while_its_own_delivery_still_owns_it() -> None:
    last = status(created(max_tries=1), started())
    assert isinstance(decide(last, delivery(1), now=NOON), Ignore)


def test_a_waiting_job_with_no_try_left_is_buried() -> None:
    worn = status(created(max_tries=1), started(), retry_scheduled())
    assert decide(worn, delivery(2), now=after(60)) == MarkDead(None)


def test_a_try_given_back_by_a_shutdown_can_be_used_again() -> None:
    handed_back = status(
        created(max_tries=1), started(), retry_scheduled(tries=0, next_attempt_at=None)
    )
    assert decide(handed_back, delivery(2), now=NOON) == Start()


def test_a_delivery_that_comes_before_its_time_is_put_back_for_the_rest() -> None:
    waiting = status_in(JobState.RETRY, next_attempt_at=after(30))
    assert decide(waiting, delivery(2), now=after(10)) == RedeliverLater(timedelta(seconds=20))
    assert decide(waiting, delivery(2), now=after(30)) == Start()


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.RETRY])
def test_a_waiting_job_past_its_deadline_expires_unrun(state: JobState) -> None:
    late = status_in(state, deadline=after(60))
    assert decide(late, delivery(2), now=after(60)) == Expire()
    assert not isinstance(decide(late, delivery(2), now=after(59)), Expire)


def test_the_deadline_comes_before_a_used_up_try_and_before_an_early_delivery() -> None:
    late = status_in(JobState.RETRY, deadline=after(1), tries=3, next_attempt_at=after(900))
    assert decide(late, delivery(2), now=after(60)) == Expire()


def test_a_running_job_past_its_deadline_is_first_taken_over_then_expires() -> None:
    late = status_in(JobState.ACTIVE, deadline=after(1))
    assert decide(late, delivery(2), now=after(60)) == TakeOver(FIRST)


@pytest.mark.parametrize("number", [1, 2, 9])
def test_an_attempt_that_began_while_a_delivery_waited_is_left_alone(number: int) -> None:
    """However old the delivery is that it began with: it began after this one had come."""
    active = status(created(), started(attempt=FIRST))
    decision = decide(active, delivery(number), now=NOON, seen_idle=True)
    assert isinstance(decision, Ignore)
