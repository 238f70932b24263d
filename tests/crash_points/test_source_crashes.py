"""A process dies after each request that changes the source of the work queue: no job is lost.

`make crash-points` kills it before and after every other `await` of a move or repair as well.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import pytest

from tests.crash_points.campaign import Kill, carry_out
from tests.crash_points.points import Side
from tests.crash_points.runs import Result
from tests.crash_points.tripwire import Trap

PARALLEL_RUNS: Final = 2
SETUP: Final = "trellis_jobs.jetstream.setup"
# How often each request that changes something is made, in each scenario.
CHANGES: Final = {
    "moving_the_source": {
        "work_source:_wait_until_acknowledged:api.request#2": 1,  # paused
        "work_source:_set_sources:api.request#2": 2,  # detached, attached
        "work_source:_update:api.request": 2,  # the filter corrected, moved
        "work_source:_resume:api.request#2": 1,
    },
    "adding_lanes": {
        "work_source:_wait_until_acknowledged:api.request#2": 1,  # paused
        "work_source:_set_sources:api.request#2": 2,  # detached, attached
        "work_source:_update:api.request": 1,  # the filter corrected
        "work_source:_resume:api.request#2": 1,
    },
    "adding_lanes_to_a_plain_source": {
        "plain_source:_set_source:api.request#2": 2,  # other transforms, without a first sequence
    },
    "repairing_the_source": {
        "work_source:_update:api.request": 1,  # the filter corrected
        "work_source:_apply_step:api.request#2": 1,  # deleted
        "work_source:_apply_step:api.request": 2,  # created
        "work_source:_set_sources:api.request#2": 1,
    },
}
KILLS: Final = [
    Kill(scenario, Trap(f"{SETUP}.{request}", Side.AFTER, nth))
    for scenario, requests in CHANGES.items()
    for request, times in requests.items()
    for nth in range(1, times + 1)
]


@pytest.mark.timeout(300)
def test_the_next_process_finishes_a_move_or_repair_of_the_source(tmp_path: Path) -> None:
    async def carried_out() -> dict[Kill, Result]:
        return {kill: result async for kill, result in carry_out(KILLS, tmp_path, PARALLEL_RUNS)}

    ended = asyncio.run(carried_out())
    assert {str(kill): each.violations for kill, each in ended.items() if each.violations} == {}
    assert [str(kill) for kill, result in ended.items() if not result.died] == []
