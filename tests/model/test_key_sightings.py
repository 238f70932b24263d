"""When a lease is over: on the clock of who watched it, and on no other."""

from __future__ import annotations

from tests.given import after, key_state, slot
from trellis_jobs.model.keys.lease_observer import LeaseObserver

TTL = 60.0
A, B = slot("a", "A"), slot("b", "B")
TWO = key_state(active=(A, B), max_active=2)
RENEWED = key_state(active=(slot("a", "A", heartbeat_at=after(20)), B), max_active=2)


def test_a_lease_is_over_when_nobody_renewed_it_for_as_long_as_it_lasts() -> None:
    watched = LeaseObserver().look(TWO, 1000.0).look(TWO, 1059.9)
    assert watched.over(TTL, 1059.9) == []
    assert watched.over(TTL, 1060.0) == [A, B]


def test_a_lease_that_was_never_seen_before_is_not_over_whatever_its_times_say() -> None:
    ancient = key_state(active=(slot("a", "A", expires_at=after(-1_000_000)),))
    assert LeaseObserver().look(ancient, 5000.0).over(TTL, 5000.0) == []


def test_a_renewal_begins_the_lease_anew() -> None:
    watched = LeaseObserver().look(TWO, 0.0).look(RENEWED, 59.0)
    assert watched.over(TTL, 60.0) == [B]
    assert watched.over(TTL, 119.0) == [RENEWED.active[0], B]


def test_a_slot_under_a_new_token_is_a_new_lease() -> None:
    taken_back = key_state(active=(slot("a", "new"), B), max_active=2)
    assert LeaseObserver().look(TWO, 0.0).look(taken_back, 59.0).over(TTL, 60.0) == [B]


def test_a_slot_that_was_gone_and_is_there_again_is_a_new_lease() -> None:
    watched = LeaseObserver().look(TWO, 0.0).look(key_state(), 30.0).look(TWO, 59.0)
    assert watched.over(TTL, 60.0) == []


def test_a_slot_that_is_gone_is_not_over() -> None:
    only_b = key_state(active=(B,), max_active=2)
    assert LeaseObserver().look(TWO, 0.0).look(only_b, 61.0).over(TTL, 61.0) == [B]


def test_who_waits_knows_when_to_look_again() -> None:
    assert LeaseObserver().next_end(TTL) is None
    assert LeaseObserver().look(TWO, 5.0).next_end(TTL) == 65.0
    assert LeaseObserver().look(TWO, 5.0).look(RENEWED, 30.0).next_end(TTL) == 65.0
