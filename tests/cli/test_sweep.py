"""Going through many jobs when nobody answers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import pytest

from jobs_admin.api.client import AdminClient
from jobs_admin.cli.bulk.result import Tally, Why
from jobs_admin.cli.bulk.runner import Sweep
from jobs_admin.cli.bulk.targets import Named
from jobs_admin.cli.bulk.verbs import REPLAY
from jobs_admin.cli.exit_codes import Exit
from jobs_admin.operations.pace import Pace
from tests.cli.stage import Stage, stage
from trellis_jobs.errors import NotConfirmed


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("stage")) as made:
        yield made


async def _sweep(there: Stage, named: Named, asked: int, *, timeout: float) -> Tally:
    tally = Tally("replay", asked)
    async with AdminClient.connect(there.url, timeout=timeout) as admin:
        await Sweep(admin, REPLAY, None, Pace(None), tally, lambda: None).run(named)
    return tally


def test_changes_that_nobody_answers_are_unclear_and_end_it(there: Stage) -> None:
    """More than are sent at once: the rest is left alone."""
    ids = tuple(f"job-{number}" for number in range(100))
    there.admin.send(signal.SIGSTOP)
    try:
        tally = asyncio.run(_sweep(there, Named(ids), 100, timeout=0.2))
    finally:
        there.admin.send(signal.SIGCONT)
    assert tally.done == 0
    assert {each.why for each in tally.not_done} == {Why.UNCLEAR}
    assert 0 < len(tally.not_done) < 100
    assert isinstance(tally.outage, NotConfirmed)
    assert tally.exit is Exit.UNREACHABLE
