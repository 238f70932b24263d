"""The same as `make load`, with a thousand jobs and ten connections; nothing is timed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.load.campaign import Plan, run
from tests.load.limits import overweight

PLAN = Plan(jobs=1_000, connections=10, processes=2, seconds=1)


@pytest.mark.timeout(180)
async def test_under_a_burst_nothing_is_dropped_and_no_process_grows_without_bound(
    tmp_path: Path,
) -> None:
    """Although one handler is stuck, and a worker and a listener stop reading."""
    outcome = await run(PLAN, tmp_path, print)
    assert outcome.violations == []
    assert overweight(outcome, PLAN) == []
    waited = (outcome.before, outcome.during, outcome.after)
    assert sum(map(len, waited)) == PLAN.jobs
    assert outcome.connections >= PLAN.connections
