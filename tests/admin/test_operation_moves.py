"""The states of an operation, and who may move it: without a server."""

from __future__ import annotations

import pytest

from jobs_admin.api.views.jobs import JobCursor
from jobs_admin.api.views.operations import (
    OperationFilter,
    OperationState,
    OperationVerb,
    RefusalView,
)
from jobs_admin.operations import operation as moves
from jobs_admin.operations.operation import Operation, OperationRequest, Progress
from jobs_admin.operations.page_work import MAX_REASONS, Settled
from tests.given import NOON, after
from trellis_jobs.model.identity import JobAddress

S = OperationState


def started() -> Operation:
    request = OperationRequest(
        verb=OperationVerb.REPLAY,
        filter=OperationFilter(service="shop"),
        by="ann",
        reason="the bank is back",
        rate=None,
        total=9,
    )
    return moves.start("op-1", request, 77, NOON)


def claimed() -> Operation:
    found = moves.claim(started(), "one", after(1), lease_expired=False)
    assert found is not None
    return found


def test_an_operation_without_an_owner_is_claimed_by_the_first_that_comes() -> None:
    assert (claimed().owner, claimed().state) == ("one", S.RUNNING)
    assert moves.claim(claimed(), "two", after(2), lease_expired=False) is None


def test_an_owner_that_is_silent_for_the_lease_loses_it_and_what_is_counted_stays() -> None:
    progress = Progress(
        cursor=JobCursor(created_at=NOON, first_seq=5), page=(5, 8), done=3, refused={}, refusals=()
    )
    further = moves.advance(claimed(), progress, after(2))
    taken = moves.claim(further, "two", after(20), lease_expired=True)
    assert taken is not None
    assert (taken.owner, taken.done, taken.page, taken.cursor) == ("two", 3, (5, 8), further.cursor)


def test_every_write_of_an_owner_changes_the_record() -> None:
    """Others see that it lives, also when nothing was done since."""
    same = Progress(cursor=None, page=(), done=0, refused={}, refusals=())
    once = moves.advance(claimed(), same, after(2))
    twice = moves.advance(once, same, after(2))
    assert once != twice
    assert (once.done, once.page) == (twice.done, twice.page)


def test_progress_that_is_written_twice_counts_once() -> None:
    refusal = RefusalView(id="j", service="shop", type="charge", reason="already cancelled")
    progress = Progress(
        cursor=None, page=(), done=4, refused={"already cancelled": 1}, refusals=(refusal,)
    )
    once = moves.advance(claimed(), progress, after(2))
    twice = moves.advance(once, progress, after(3))
    assert (twice.done, twice.refused, twice.refusals) == (4, {"already cancelled": 1}, (refusal,))


def test_a_stop_waits_for_the_owner_where_there_is_one() -> None:
    stopping = moves.stop(claimed(), "ben", after(2))
    assert stopping is not None
    assert (stopping.state, stopping.stopped_by, stopping.is_over) == (S.STOPPING, "ben", False)
    assert moves.finish(stopping, after(3)).state is S.STOPPED
    unowned = moves.stop(started(), "ben", after(2))
    assert unowned is not None
    assert (unowned.state, unowned.ended_at) == (S.STOPPED, after(2))


def test_one_whose_owner_died_while_it_was_to_stop_is_claimed_and_stopped() -> None:
    stopping = moves.stop(claimed(), "ben", after(2))
    assert stopping is not None
    taken = moves.claim(stopping, "two", after(20), lease_expired=True)
    assert taken is not None
    assert moves.finish(taken, after(21)).state is S.STOPPED


@pytest.mark.parametrize(
    "over",
    [
        moves.finish(claimed(), after(3)),
        moves.fail(claimed(), "a mistake", after(3)),
        moves.stop(started(), "ben", after(3)),
    ],
    ids=["done", "failed", "stopped"],
)
def test_what_is_over_is_neither_claimed_nor_stopped(over: Operation) -> None:
    assert (over.is_over, over.owner, over.ended_at) == (True, None, after(3))
    assert moves.claim(over, "two", after(4), lease_expired=True) is None
    assert moves.stop(over, "ben", after(4)) is None


def test_one_that_is_released_is_free_at_once() -> None:
    released = moves.release(claimed(), after(2))
    assert released.state is S.RUNNING
    assert moves.claim(released, "two", after(2), lease_expired=False) is not None


def test_the_reasons_in_a_record_are_bounded() -> None:
    """Messages that name their job would make as many reasons as jobs, and too large a record."""
    settled = Settled(started())
    job = JobAddress("shop", "charge", "j")
    for number in range(1_000):
        settled.refuse(job, f"the event of job-{number} is too large")
    settled.refuse(job, "the event of job-0 is too large")
    assert len(settled.refused) == MAX_REASONS + 1
    assert settled.refused["the event of job-0 is too large"] == 2
    assert settled.refused.total() == 1_001
