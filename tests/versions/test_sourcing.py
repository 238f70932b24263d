"""A server restart with an old job unfinished: no finished job is ever run again."""

from __future__ import annotations

import pytest

from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import Probe, probe, worker
from tests.support.servers import NEWEST, start_version
from trellis_jobs.jetstream.client import api

FINISHED = 20


async def sourced(raw: Probe) -> int:
    """How many work messages there ever were."""
    info = await api.request(raw.connection, "STREAM.INFO.JOBS_WORK")
    return int(info["state"]["last_seq"])


@pytest.mark.parametrize(
    ("version", "sourced_again"), [(NEWEST, 0), ("2.14.6", 0), ("2.12.8", FINISHED)]
)
async def test_a_restart_beside_an_old_job_runs_no_finished_job_again(
    version: str, sourced_again: int
) -> None:
    with start_version(version) as server:
        async with worker(server.url, "slow") as bench, probe(server.url) as raw:
            old = await bench.jobs.slow.create(Task(do="wait"))
            await bench.until_running(old)
            for ref in await bench.jobs.slow.create_many([Task()] * FINISHED):
                await ref.wait(timeout=10)
            await until(lambda: only_the_old_one(raw))
            if sourced_again == 0:
                await until(lambda: has_confirmed_everything(raw))
            server.kill()
            server.restart()
            after = await bench.jobs.slow.create(Task(text="after"))
            await after.wait(timeout=20)
            await until(lambda: only_the_old_one(raw))
            assert await sourced(raw) == 1 + FINISHED + 1 + sourced_again
            assert len(bench.runs) == 1 + FINISHED + 1
            bench.go.set()
            await old.wait(timeout=20)
            assert len({job_id for job_id, _ in bench.runs}) == len(bench.runs)


async def has_confirmed_everything(raw: Probe) -> bool:
    """The source acknowledges in bulk; what it has not is sourced again, and dropped as well."""
    info = await api.request(raw.connection, "CONSUMER.INFO.JOBS.to-work")
    return bool(info["num_ack_pending"] == 0 == info["num_pending"])


async def only_the_old_one(raw: Probe) -> bool:
    return await raw.work_messages() == 1
