"""When a lease is over: on the clock of who watched it, and on no other."""

from __future__ import annotations

from tests.given import after, key_state, slot
from trellis_jobs.model.keys.lease_observer import LeaseObserver

TTL = 60.0
A, B = slot("a", "A"), slot("b", "B")
TWO = key_state(active=(A, B), max_active=2)
RENEWED = key_state(active=(slot("a", "A", heartbeat_at=after(20)), B), max_active=2)


def test_a_lease_is_over_when_it_was_not_renewed_for_as_long_as_it_lasts() -> None:
    watched = LeaseObserver().observe(TWO, 1000.0).observe(TWO, 1059.9)
    assert watched.expired(TTL, 1059.9) == []
    assert watched.expired(TTL, 1060.0) == [A, B]


def test_a_lease_that_was_never_seen_before_is_not_over_whatever_its_times_say() -> None:
    ancient = key_state(active=(slot("a", "A", expires_at=after(-1_000_000)),))
    assert LeaseObserver().observe(ancient, 5000.0).expired(TTL, 5000.0) == []


def test_a_renewal_starts_the_lease_again() -> None:
    watched = LeaseObserver().observe(TWO, 0.0).observe(RENEWED, 59.0)
    assert watched.expired(TTL, 60.0) == [B]
    assert watched.expired(TTL, 119.0) == [RENEWED.active[0], B]


def test_a_slot_under_a_new_token_is_a_new_lease() -> None:
    taken_back = key_state(active=(slot("a", "new"), B), max_active=2)
    assert LeaseObserver().observe(TWO, 0.0).observe(taken_back, 59.0).expired(TTL, 60.0) == [B]


def test_a_slot_that_was_gone_and_is_there_again_is_a_new_lease() -> None:
    watched = LeaseObserver().observe(TWO, 0.0).observe(key_state(), 30.0).observe(TWO, 59.0)
    assert watched.expired(TTL, 60.0) == []


def test_a_slot_that_is_gone_is_not_over() -> None:
    only_b = key_state(active=(B,), max_active=2)
    assert LeaseObserver().observe(TWO, 0.0).observe(only_b, 61.0).expired(TTL, 61.0) == [B]


def test_who_waits_knows_when_to_check_later() -> None:
    assert LeaseObserver().next_expiry(TTL) is None
    assert LeaseObserver().observe(TWO, 5.0).next_expiry(TTL) == 65.0
    assert LeaseObserver().observe(TWO, 5.0).observe(RENEWED, 30.0).next_expiry(TTL) == 65.0
