"""`trellis-jobs worker` with resources: what it opens, what it reports, what it closes."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.cli.command import running
from tests.resources.depot import DEPOT
from trellis_jobs import Service

WORKER = ("worker", "tests.resources.depot:service", "--nats")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_closes_resources_after_the_last_job(
    jobs_server: str, tmp_path: Path, number: signal.Signals
) -> None:
    with running(tmp_path, *WORKER, jobs_server) as worker:
        await worker.until_prints("worker started")
        async with Service(DEPOT).connect(jobs_server, workers=False) as producing:
            await (await producing.jobs.store.create("a box")).wait(20)
        worker.send(number)
        assert await worker.until_exit() == 0, worker.printed
    steps = re.findall("shelf opened|stored a box|worker stopped|shelf closed", worker.printed)
    assert steps == ["shelf opened", "stored a box", "worker stopped", "shelf closed"]


async def test_a_burst_closes_resources_at_its_end(jobs_server: str, tmp_path: Path) -> None:
    with running(tmp_path, *WORKER, jobs_server, "--burst") as worker:
        assert await worker.until_exit() == 0, worker.printed
    assert "shelf closed" in worker.printed


async def test_a_resource_that_fails_to_open_is_the_error_of_the_command(
    jobs_server: str, tmp_path: Path
) -> None:
    with running(tmp_path, *WORKER, jobs_server, env={"LIFT": "fails"}) as worker:
        assert await worker.until_exit() == 1
    last = worker.printed.splitlines()[-1]
    assert last.startswith("error: resource 'lift' of service 'depot' failed to open")
    assert "OSError: no power" in last
    assert "in lift\n" in worker.printed, "the log has the traceback"
    assert "shelf closed" in worker.printed


async def test_a_signal_while_a_resource_opens_ends_the_worker(
    jobs_server: str, tmp_path: Path
) -> None:
    with running(tmp_path, *WORKER, jobs_server, env={"LIFT": "hangs"}) as worker:
        await worker.until_prints("lift hangs")
        worker.send(signal.SIGTERM)
        assert await worker.until_exit() == 0, worker.printed
    assert "shelf closed" in worker.printed


async def test_a_second_signal_gives_up_on_a_resource_that_does_not_close(
    jobs_server: str, tmp_path: Path
) -> None:
    """The second signal was ignored, for the 10 s that each resource has to close."""
    with running(tmp_path, *WORKER, jobs_server, env={"LIFT": "hangs at the end"}) as worker:
        await worker.until_prints("worker started")
        worker.send(signal.SIGTERM)
        await worker.until_prints("lift hangs at the end")
        worker.send(signal.SIGTERM)
        assert await worker.until_exit() == 0, worker.printed
    assert "did not close within" not in worker.printed
    assert "shelf closed" in worker.printed
