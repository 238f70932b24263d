"""How long a worker keeps a delayed NAK: until others can be sent with it, and never too long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis_jobs.model.nak_timing import BURST_INTERVAL, MIN_DELAY, time_to_keep_nak

NOON = 1_800_000_000.0
LONG_LEASE = 30.0

seconds = st.floats(0, 1_000_000)


def keep(
    delay: float, *, at: float = NOON, since_last: float = 0.0, lease_left: float = LONG_LEASE
) -> float:
    return time_to_keep_nak(delay, wall_time=at, since_last=since_last, lease_left=lease_left)


@pytest.mark.parametrize("delay", [MIN_DELAY, 0.3, 30, 31_536_000])
def test_the_first_nak_for_a_while_is_sent_at_once(delay: float) -> None:
    assert keep(delay, since_last=BURST_INTERVAL) == 0
    assert keep(delay, since_last=float("inf")) == 0


def test_naks_that_are_decided_at_different_times_are_sent_at_the_same_time() -> None:
    decided_at = [NOON + 0.01, NOON + 0.2, NOON + 0.49]
    sent_at = [at + keep(5, at=at) for at in decided_at]
    assert sent_at == pytest.approx([NOON + BURST_INTERVAL] * 3)


def test_a_nak_that_is_decided_when_others_are_sent_waits_for_the_next_time() -> None:
    assert keep(5, at=NOON) == BURST_INTERVAL


def test_a_job_that_is_due_before_the_next_burst_needs_no_delay_of_the_server() -> None:
    assert keep(0.2, at=NOON + 0.1) == 0.2


def test_a_delay_that_is_too_short_for_the_server_is_waited_for_by_the_worker() -> None:
    assert keep(MIN_DELAY / 2, since_last=60) == MIN_DELAY / 2
    assert keep(BURST_INTERVAL + MIN_DELAY / 2) == BURST_INTERVAL + MIN_DELAY / 2


def test_a_nak_is_sent_well_before_the_lease_of_its_delivery_ends() -> None:
    assert keep(5, lease_left=0.4) == pytest.approx(0.2)
    assert keep(5, lease_left=-1) == 0


@given(delay=seconds, at=seconds, since_last=seconds, lease_left=st.floats(-10, 3600))
def test_a_nak_is_never_kept_for_longer_than_its_job_waits(
    delay: float, at: float, since_last: float, lease_left: float
) -> None:
    kept = keep(delay, at=at, since_last=since_last, lease_left=lease_left)
    assert 0 <= kept <= delay
    assert kept <= BURST_INTERVAL + MIN_DELAY
    assert kept == delay or delay - kept >= MIN_DELAY
