"""Changing many jobs when no admin runtime answers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import pytest

from jobs_admin.api.client import AdminClient
from jobs_admin.cli.bulk.result import BulkResult, NotDoneReason
from jobs_admin.cli.bulk.runner import BulkRunner
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


async def _run(there: Stage, named: Named, requested: int, *, timeout: float) -> BulkResult:
    result = BulkResult("replay", requested)
    async with AdminClient.connect(there.url, timeout=timeout) as admin:
        await BulkRunner(admin, REPLAY, None, Pace(None), result, lambda: None).run(named)
    return result


def test_changes_without_an_answer_are_unclear_and_end_it(there: Stage) -> None:
    """More than are sent at once: the rest is left alone."""
    ids = tuple(f"job-{number}" for number in range(100))
    there.admin.send(signal.SIGSTOP)
    try:
        result = asyncio.run(_run(there, Named(ids), 100, timeout=0.2))
    finally:
        there.admin.send(signal.SIGCONT)
    assert result.done == 0
    assert {each.reason for each in result.not_done} == {NotDoneReason.UNCLEAR}
    assert 0 < len(result.not_done) < 100
    assert isinstance(result.outage, NotConfirmed)
    assert result.exit is Exit.UNREACHABLE
