"""Short campaigns, the same faults each time; `make chaos` runs long ones, with more of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.campaign import Plan, run
from tests.chaos.faults import menu
from tests.chaos.stage import Cast
from tests.support.servers import server_binary
from trellis_jobs.model.events import EventKind


@pytest.mark.timeout(180)
# nats-py leaves the socket of a server that took the connection and said nothing to be collected.
@pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <function StreamWriter:pytest.PytestUnraisableExceptionWarning"
)
# Seeds by which those are killed and cut off at a named point who often pass it.
@pytest.mark.parametrize(("servers", "seconds", "seed"), [(1, 5, 4), (3, 6, 8)])
async def test_whatever_happens_the_rules_hold(
    servers: int, seconds: float, seed: int, tmp_path: Path
) -> None:
    plan = Plan(
        seed=seed,
        seconds=seconds,
        servers=servers,
        binary=server_binary(),
        cast=Cast(workers=2, producers=1),
        timeout=60,
        is_short=True,
    )
    outcome = await run(plan, tmp_path, print)
    assert outcome.violations == []
    # There was something to be broken, and what breaks it.
    kinds = {entry.event.kind for entry in outcome.seen.entries}
    assert kinds >= {EventKind.CREATED, EventKind.STARTED, EventKind.COMPLETED}
    assert set(outcome.faults) == set(menu(servers=servers, is_short=True))
