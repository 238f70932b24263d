"""A job is not released before its time by the clock of the server, whatever the worker's says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import pytest

from tests.delays.delay_lab import LATER, ledger, producer
from tests.support.example_service import Task, TaskWorker, task_worker
from trellis_jobs import Service, Workers
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import Environment, utc_now

DELAYS = (0.3, 0.9, 1.4, 2.5)


class WrongClock:
    """The clock of a machine that is off, and that may jump while a worker runs."""

    def __init__(self, ahead: float) -> None:
        self.ahead = ahead

    def now(self) -> datetime:
        return utc_now() + timedelta(seconds=self.ahead)


@asynccontextmanager
async def worker_with(clock: WrongClock, url: str) -> AsyncIterator[TaskWorker]:
    made = task_worker(Service(LATER, grace=1))
    made.service._runtime.environment = Environment(now=clock.now)
    async with made.service.connect(url, workers=Workers(queues=["work"])):
        yield made


# Two seconds are not corrected: events then have the time of the machine.
@pytest.mark.parametrize("ahead", [1.9, -1.9, 3600, -3600])
async def test_a_worker_whose_clock_is_off_releases_no_job_early(
    server: EmbeddedServer, ahead: float
) -> None:
    async with (
        producer(server.url) as jobs,
        worker_with(WrongClock(ahead), server.url),
        ledger(server.url) as books,
    ):
        refs = [await jobs.work.create(Task(), delay=delay) for delay in DELAYS]
        await books.until_over(refs)
        await books.ran_once_and_not_early(*refs)


async def test_a_clock_that_jumps_while_alarms_are_held_releases_no_job_early(
    server: EmbeddedServer,
) -> None:
    clock = WrongClock(0)
    async with (
        producer(server.url) as jobs,
        worker_with(clock, server.url),
        ledger(server.url) as books,
    ):
        await books.until_received()
        refs = [await jobs.work.create(Task(), delay=delay) for delay in DELAYS * 5]
        clock.ahead = 3600
        await books.until_over(refs)
        await books.ran_once_and_not_early(*refs)


@pytest.mark.parametrize("ahead", [1.9, -1.9])
async def test_a_producer_whose_clock_is_off_still_sets_alarms_that_come(
    server: EmbeddedServer, ahead: float
) -> None:
    """What it sets is not early for the log, and no process publishes it in a loop."""
    async with worker_with(WrongClock(ahead), server.url) as made, ledger(server.url) as books:
        refs = [await made.jobs.work.create(Task(), delay=delay) for delay in DELAYS]
        await books.until_over(refs)
        await books.ran_once_and_not_early(*refs)
        received = int((await books.due_consumer())["delivered"]["consumer_seq"])
        assert received < 20 * len(DELAYS)
