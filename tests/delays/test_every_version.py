"""The promises of delayed jobs on every server version, also while the server is killed.

2.11 has no message schedules: its alarms are redelivered. 2.12 publishes some alarms twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Final

import pytest

from tests.delays.delay_lab import A_DAY, SOON, ledger, producer, worker
from tests.support.example_service import Report, Task
from tests.support.servers import NEWEST, start_version
from trellis_jobs import JobRef
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import JobCancelled, JobsError
from trellis_jobs.model.events import EventKind

WITH_GUARDS: Final = ("2.11.11", "2.12.8", "2.14.6", NEWEST)
JOBS: Final = 100


@pytest.fixture(params=WITH_GUARDS)
def any_server(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    with start_version(request.param) as running:
        yield running


async def test_delayed_and_moved_jobs_run_once_and_never_early(any_server: EmbeddedServer) -> None:
    url = any_server.url
    async with (
        worker(url) as bench,
        worker(url),
        ledger(url) as books,
    ):
        plain = [await bench.jobs.work.create(Task(), delay=delay) for delay in (0.5, 1.5, 3, 4)]
        many = await bench.jobs.work.create_many([Task()] * 50, delay=2)
        keyed = [
            await getattr(bench.jobs, queue).create(Task(key=f"key-{n}"), delay=SOON)
            for queue in ("waiting", "rejecting", "newest")
            for n in range(3)
        ]
        early = await bench.jobs.work.create(Task(), delay=A_DAY)
        await early.reschedule(delay=SOON)
        late = await bench.jobs.work.create(Task(), delay=SOON)
        await late.reschedule(delay=4)
        now = await bench.jobs.work.create(Task(), delay=A_DAY)
        await now.run_now()
        cancelled = await bench.jobs.work.create(Task(), delay=SOON)
        await cancelled.cancel()
        await books.until_all_ran([*plain, *many, *keyed, early, late, now], deadline=40)
        with pytest.raises(JobCancelled):
            await cancelled.wait(timeout=1)
        assert await books.kinds(cancelled) == ["scheduled", "cancelled"]


async def test_a_job_that_waits_for_its_next_try_can_be_moved(any_server: EmbeddedServer) -> None:
    async with worker(any_server.url) as bench, ledger(any_server.url) as books:
        for queue in (bench.jobs.patient, bench.jobs.stubborn):
            ref = await queue.create(Task(do="fail once"))
            await books.until_kind(ref, EventKind.RETRY)
            await ref.reschedule(delay=SOON)
            assert (await ref.wait(timeout=20)).tries == 2
            await books.ran_once_and_not_early(ref, tries=2)


@pytest.mark.parametrize("any_server", ["2.11.11", "2.12.8", NEWEST], indirect=True)
async def test_jobs_that_are_due_while_the_server_is_killed_run_once_and_never_early(
    any_server: EmbeddedServer,
) -> None:
    """Jobs are created, too, meanwhile. Those whose create() returned are there."""
    chance = Random(3)  # noqa: S311 - the same every time
    url, created = any_server.url, list[JobRef[Report]]()
    async with (
        worker(url) as bench,
        worker(url),
        producer(url) as jobs,
        ledger(url) as books,
    ):

        async def create(number: int) -> None:
            await asyncio.sleep(number * 0.05)  # spread over the kills
            queue = jobs.work if number % 4 else jobs.waiting
            errand = Task(key=f"key-{number % 12}")
            with suppress(JobsError):
                created.append(await queue.create(errand, delay=chance.uniform(0.2, 3)))

        creating = asyncio.gather(*(create(number) for number in range(JOBS)))
        for _ in range(2):
            await asyncio.sleep(1.5)  # so that some jobs are due before, and others meanwhile
            await asyncio.to_thread(any_server.kill)
            await asyncio.to_thread(any_server.restart)
        await creating
        assert len(created) > JOBS // 2
        await books.until_all_ran(created, deadline=60)
        assert set(bench.begun) <= {ref.id for ref in created}
