"""Each move on a key, and each way it can be refused."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.given import after, key_state, slot, waiting
from trellis_jobs.model.keys.backlog import (
    Admitted,
    CoalescedInto,
    Full,
    Refusal,
    Rejected,
    Replaced,
    WhenFull,
    admit,
    oldest,
)
from trellis_jobs.model.keys.fencing import StalePolicy
from trellis_jobs.model.keys.slots import (
    Acquired,
    AllSlotsTaken,
    Held,
    NotFirst,
    Renewed,
    SlotLost,
    acquire,
    drop,
    due_before,
    enqueue,
    forget,
    release,
    renew,
    withdraw,
)
from trellis_jobs.model.keys.state import KeyState, Slot
from trellis_jobs.model.values import replace

OLD, MIDDLE, YOUNG = (waiting(name, created_at=after(n)) for n, name in enumerate("abc"))
EMPTY = key_state()
RUNNING = key_state(active=(slot("a", "A"),))
BACKLOG = key_state(queued=(OLD, MIDDLE, YOUNG), max_queued=3)
RESTING = replace(OLD, not_before=after(30))
TTL = timedelta(seconds=60)
ACTIVE_LIMIT = Full(Refusal.ACTIVE_LIMIT, 1)


def ids(state: KeyState) -> tuple[str, str]:
    """Who runs and who waits."""
    active = "".join(held.job_id for held in state.active)
    return active, "".join(each.job_id for each in state.queued)


def test_a_free_slot_goes_to_who_asks() -> None:
    taken = acquire(EMPTY, slot("a"), OLD, may_overtake=False)
    assert taken == Acquired(replace(EMPTY, active=(slot("a"),)))


def test_a_job_that_starts_waits_no_more() -> None:
    taken = acquire(BACKLOG, slot("a"), OLD, may_overtake=False)
    assert ids(taken.state) == ("a", "bc")


def test_a_job_that_was_never_queued_may_start_too() -> None:
    taken = acquire(key_state(queued=(YOUNG,)), slot("a"), OLD, may_overtake=False)
    assert ids(taken.state) == ("a", "c")


def test_a_job_that_was_never_queued_does_not_pass_older_ones() -> None:
    before = key_state(queued=(OLD,))
    assert acquire(before, slot("c"), YOUNG, may_overtake=False) == NotFirst(before)


def test_a_busy_key_is_busy_even_for_the_patient() -> None:
    assert acquire(RUNNING, slot("b"), MIDDLE, may_overtake=True) == AllSlotsTaken(RUNNING)


def test_the_first_in_line_is_served_first() -> None:
    assert isinstance(acquire(BACKLOG, slot("b"), MIDDLE, may_overtake=False), NotFirst)
    assert isinstance(acquire(BACKLOG, slot("a"), OLD, may_overtake=False), Acquired)


def test_a_first_in_line_that_is_absent_holds_up_no_job_for_long() -> None:
    taken = acquire(BACKLOG, slot("c"), YOUNG, may_overtake=True)
    assert ids(taken.state) == ("c", "ab")


def test_as_many_are_first_in_line_as_slots_are_free() -> None:
    two_free = replace(BACKLOG, max_active=2)
    assert isinstance(acquire(two_free, slot("b"), MIDDLE, may_overtake=False), Acquired)
    assert isinstance(acquire(two_free, slot("c"), YOUNG, may_overtake=False), NotFirst)


def test_of_two_jobs_of_the_same_age_the_first_to_come_is_first() -> None:
    twin = replace(YOUNG, created_at=OLD.created_at)
    both = enqueue(enqueue(EMPTY, OLD), twin)
    assert ids(both) == ("", "ac")
    assert isinstance(acquire(both, slot("c"), twin, may_overtake=False), NotFirst)


def test_a_job_that_comes_back_after_a_crash_takes_its_own_slot_under_its_new_token() -> None:
    full = key_state(active=(slot("a", "A"), slot("b", "B")), max_active=2)
    back = acquire(full, slot("a", "new", since=5), OLD, may_overtake=False)
    assert isinstance(back, Acquired)
    assert [(held.job_id, held.token) for held in back.state.active] == [("a", "new"), ("b", "B")]
    assert back.state.stale_takeovers == 0


def test_a_job_that_takes_its_slot_back_waits_no_more_either() -> None:
    torn = replace(RUNNING, queued=(OLD,))
    assert ids(acquire(torn, slot("a", "new", since=5), OLD, may_overtake=False).state) == ("a", "")
    assert ids(acquire(torn, slot("a", "A"), OLD, may_overtake=False).state) == ("a", "")


@pytest.mark.parametrize("since", [3, 4], ids=["less", "as much"])
def test_who_knows_no_more_of_the_log_than_the_holder_does_not_take_its_jobs_slot(
    since: int,
) -> None:
    """The holder may be about to start, or run already: only an append can tell."""
    held = key_state(active=(slot("a", "A", since=4),), queued=(OLD,), max_active=2)
    asked = acquire(held, slot("a", "late", since=since), OLD, may_overtake=True)
    assert asked == Held(held, held.active[0])
    assert asked.state is held


def test_a_slot_of_a_foreign_runtime_is_taken_back_by_anyone_who_read_the_log() -> None:
    ours = slot("a", "ours", since=1)
    taken = acquire(RUNNING, ours, OLD, may_overtake=False)
    assert taken == Acquired(replace(RUNNING, active=(ours,)))


def test_a_job_in_backoff_holds_up_no_other_job() -> None:
    before = key_state(queued=(RESTING, MIDDLE), max_queued=2)
    early = slot("b", started_at=after(29))
    assert isinstance(acquire(before, early, MIDDLE, may_overtake=False), Acquired)


def test_a_job_whose_backoff_is_over_has_its_place_again() -> None:
    before = key_state(queued=(RESTING, MIDDLE), max_queued=2)
    on_time = slot("b", started_at=after(30))
    assert acquire(before, on_time, MIDDLE, may_overtake=False) == NotFirst(before)


def test_only_older_jobs_that_are_due_come_before_a_job() -> None:
    state = key_state(queued=(RESTING, MIDDLE, YOUNG), max_queued=3)
    assert due_before(YOUNG, state, after(29)) == [MIDDLE]
    assert due_before(YOUNG, state, after(30)) == [RESTING, MIDDLE]
    assert due_before(MIDDLE, state, after(29)) == []


def test_a_job_that_is_not_queued_waits_behind_those_of_its_own_age() -> None:
    twin = waiting("d", created_at=MIDDLE.created_at)
    assert due_before(twin, BACKLOG, after(0)) == [OLD, MIDDLE]


def test_an_acquire_that_is_repeated_changes_nothing() -> None:
    again = acquire(RUNNING, slot("a", "A"), OLD, may_overtake=False)
    assert isinstance(again, Acquired)
    assert again.state is RUNNING


def test_a_renewal_moves_only_its_own_lease() -> None:
    two = key_state(active=(slot("a", "A"), slot("b", "B")), max_active=2)
    renewed = renew(two, "B", at=after(20), ttl=TTL)
    assert isinstance(renewed, Renewed)
    first, second = renewed.state.active
    assert first == two.active[0]
    assert second == slot("b", "B", heartbeat_at=after(20), expires_at=after(80))


def test_a_token_that_holds_nothing_renews_nothing() -> None:
    lost = renew(RUNNING, "B", at=after(20), ttl=TTL)
    assert isinstance(lost, SlotLost)
    assert lost.state is RUNNING


def test_a_slot_that_is_given_back_leaves_no_trace() -> None:
    assert ids(release(RUNNING, "A").state) == ("", "")


def test_a_token_that_holds_nothing_gives_nothing_back() -> None:
    assert release(RUNNING, "B").state is RUNNING
    assert release(RUNNING, "B", requeue=MIDDLE).state is RUNNING


def test_a_job_that_will_be_tried_again_keeps_its_place_by_its_age() -> None:
    before = key_state(active=(slot("b", "B"),), queued=(OLD, YOUNG))
    assert ids(release(before, "B", requeue=MIDDLE).state) == ("", "abc")


def test_a_job_that_will_be_tried_later_says_so_in_the_queue() -> None:
    assert release(RUNNING, "A", requeue=RESTING).state.queued == (RESTING,)


def test_a_job_may_come_back_to_a_queue_that_is_full() -> None:
    before = replace(RUNNING, queued=(MIDDLE,), max_queued=1)
    assert ids(release(before, "A", requeue=OLD).state) == ("", "ab")


def test_a_takeover_is_counted_when_it_ended_a_job() -> None:
    assert drop(RUNNING, "A", counted=True).state.stale_takeovers == 1
    assert drop(RUNNING, "A", counted=False).state.stale_takeovers == 0
    assert ids(drop(RUNNING, "A", counted=True).state) == ("", "")


def test_a_takeover_that_another_worker_made_first_is_not_counted_again() -> None:
    assert drop(RUNNING, "B", counted=True).state is RUNNING


def test_what_is_forgotten_is_gone_from_both_sides() -> None:
    before = replace(RUNNING, queued=(MIDDLE, YOUNG))
    assert ids(forget(before, "a", "c", "never-there", seen=before).state) == ("", "b")


def test_forgetting_who_is_not_there_changes_nothing() -> None:
    assert forget(RUNNING, "b", seen=RUNNING).state is RUNNING
    assert forget(RUNNING, seen=RUNNING).state is RUNNING


def test_a_slot_taken_after_the_log_was_asked_is_not_forgotten() -> None:
    """The job was over then; an operator may have sent it on a new run since."""
    again = key_state(active=(slot("a", "new run"),))
    assert forget(again, "a", seen=RUNNING).state is again
    assert forget(again, "a", seen=EMPTY).state is again


def test_of_the_slots_that_were_seen_only_those_of_the_forgotten_go() -> None:
    two = key_state(active=(slot("a", "A"), slot("b", "B")), max_active=2)
    assert ids(forget(two, "b", seen=two).state) == ("a", "")


def test_a_job_that_is_withdrawn_waits_no_more_and_runs_on() -> None:
    torn = replace(RUNNING, queued=(OLD, MIDDLE))
    assert ids(withdraw(torn, "a").state) == ("a", "b")


def test_a_request_withdraws_only_what_it_put_there_itself() -> None:
    asked = key_state(queued=(replace(OLD, request_id="first"), MIDDLE))
    assert withdraw(asked, "a", request_id="second").state is asked
    assert ids(withdraw(asked, "a", request_id="first").state) == ("", "b")


def test_withdrawing_who_does_not_wait_changes_nothing() -> None:
    assert withdraw(BACKLOG, "d").state is BACKLOG
    assert withdraw(RUNNING, "a").state is RUNNING


def test_a_job_is_queued_once() -> None:
    assert enqueue(BACKLOG, MIDDLE) is BACKLOG


@pytest.mark.parametrize("when_full", WhenFull)
def test_an_idle_key_lets_exactly_as_many_in_as_may_run_and_wait(when_full: WhenFull) -> None:
    state = key_state(max_active=2, max_queued=1)
    for number in range(3):
        admitted = admit(state, waiting(f"{number}"), when_full)
        assert isinstance(admitted, Admitted)
        state = admitted.state
    assert not isinstance(admit(state, waiting("one-more"), when_full), Admitted)


@pytest.mark.parametrize("when_full", WhenFull)
def test_a_request_that_is_repeated_is_in_already(when_full: WhenFull) -> None:
    for state, known in ((BACKLOG, MIDDLE), (RUNNING, OLD)):
        again = admit(state, known, when_full)
        assert isinstance(again, Admitted)
        assert again.state is state


def test_one_too_many_is_told_that_the_key_runs_as_many_as_it_may() -> None:
    full = replace(RUNNING, max_queued=0)
    assert admit(full, MIDDLE, WhenFull.REJECT) == Rejected(full, ACTIVE_LIMIT)


@pytest.mark.parametrize("running", [(), (slot("r", "R"),)], ids=["none run", "one runs"])
def test_one_too_many_is_told_that_the_queue_is_full(running: tuple[Slot, ...]) -> None:
    queued = (OLD, MIDDLE, YOUNG)[len(running) :]
    full = key_state(max_active=2, max_queued=1, active=running, queued=queued)
    refused = admit(full, waiting("d"), WhenFull.REJECT)
    assert refused == Rejected(full, Full(Refusal.QUEUE_DEPTH, 1))
    assert refused.state is full


@pytest.mark.parametrize("max_queued", [0, 1])
def test_one_too_many_is_told_when_a_lease_that_is_over_blocks_the_key(max_queued: int) -> None:
    full = replace(RUNNING, max_queued=max_queued, queued=(MIDDLE,)[:max_queued])
    late = waiting("d", created_at=RUNNING.active[0].expires_at)
    blocked = admit(full, late, WhenFull.REJECT, StalePolicy.BLOCK)
    assert blocked == Rejected(full, Full(Refusal.STALE_BLOCKED, 1))


def test_a_lease_that_is_over_blocks_no_job_where_it_ends_its_job() -> None:
    full = replace(RUNNING, max_queued=0)
    late = waiting("d", created_at=after(1000))
    assert admit(full, late, WhenFull.REJECT) == Rejected(full, ACTIVE_LIMIT)


def test_a_lease_that_is_not_over_is_only_a_limit_even_where_it_could_block() -> None:
    full = replace(RUNNING, max_queued=0)
    asked = admit(full, MIDDLE, WhenFull.REJECT, StalePolicy.BLOCK)
    assert asked == Rejected(full, ACTIVE_LIMIT)


def test_a_coalesced_request_is_done_by_the_oldest_that_waits() -> None:
    full = replace(RUNNING, queued=(MIDDLE, YOUNG), max_queued=2)
    coalesced = admit(full, waiting("d"), WhenFull.COALESCE)
    assert coalesced == CoalescedInto(full, Full(Refusal.QUEUE_DEPTH, 2), "b")
    assert oldest(full) == "b"


def test_a_coalesced_request_is_done_by_the_running_job_if_none_waits() -> None:
    full = replace(RUNNING, max_queued=0)
    coalesced = admit(full, MIDDLE, WhenFull.COALESCE)
    assert coalesced == CoalescedInto(full, ACTIVE_LIMIT, "a")
    assert coalesced.state is full
    assert oldest(full) == "a"


def test_the_oldest_that_waits_is_replaced_and_the_new_one_is_last() -> None:
    full = replace(RUNNING, queued=(MIDDLE, YOUNG), max_queued=2)
    replaced = admit(full, waiting("d", created_at=after(9)), WhenFull.REPLACE_OLDEST)
    assert isinstance(replaced, Replaced)
    assert replaced.replaced == MIDDLE
    assert ids(replaced.state) == ("a", "cd")


def test_a_running_job_is_never_replaced() -> None:
    full = replace(RUNNING, max_queued=0)
    refused = admit(full, MIDDLE, WhenFull.REPLACE_OLDEST)
    assert refused == Rejected(full, ACTIVE_LIMIT)


def test_a_limit_that_was_lowered_ends_no_job_and_lets_none_in() -> None:
    before = key_state(active=(slot("a", "A"), slot("b", "B")), max_active=1)
    assert before.free == 0
    assert isinstance(acquire(before, slot("c"), YOUNG, may_overtake=True), AllSlotsTaken)
    assert isinstance(renew(before, "B", at=after(20), ttl=TTL), Renewed)
    after_one = release(before, "A").state
    assert isinstance(acquire(after_one, slot("c"), YOUNG, may_overtake=True), AllSlotsTaken)
