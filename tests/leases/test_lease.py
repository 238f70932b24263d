"""When a delivery is renewed: often enough, and never once it may be another's."""

from __future__ import annotations

import pytest

from trellis_jobs.jetstream.lease_keeper import Lease

RENEWED_AT = 100.0


@pytest.mark.parametrize(
    ("now", "is_due", "has_lapsed"),
    [
        (100.0, False, False),
        (102.9, False, False),
        (103.0, True, False),
        (109.0, True, False),
        (109.1, False, True),
        (500.0, False, True),
    ],
)
def test_a_lease_is_due_after_a_third_and_never_renewed_after_a_lapse(
    now: float, is_due: bool, has_lapsed: bool
) -> None:
    lease = Lease("reply", seconds=9.0, renewed_at=RENEWED_AT)
    assert (lease.is_due(now), lease.has_lapsed(now)) == (is_due, has_lapsed)
