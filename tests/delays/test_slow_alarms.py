"""The server takes so long for an alarm that it may be dropped: then no event follows."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.delays.delay_lab import A_DAY, ALARMS, LATER, ledger
from tests.support.example_service import Task, TaskJobs
from tests.support.fault_proxy import FaultProxy, Then, fault_proxy
from trellis_jobs import Service, SomeNotCreated
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import Environment
from trellis_jobs.errors import NotConfirmed
from trellis_jobs.model.events import EventKind

ALARM_STORED = rb'"stream":"%s"' % ALARMS.encode()
MANY = 200


class SlowServer:
    """Its replies to alarms come 46 s later, by the clock of the producer."""

    def __init__(self, way: FaultProxy) -> None:
        self._way = way
        self._late = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self._late

    def delay_next_alarm(self) -> None:
        self._way.when_server_sends(ALARM_STORED, self._delay)

    def _delay(self) -> Then:
        self._late += 46
        return Then.FORWARD


@asynccontextmanager
async def slow_producer(url: str) -> AsyncIterator[tuple[TaskJobs, SlowServer]]:
    async with fault_proxy(url) as way:
        slow, service = SlowServer(way), Service(LATER)
        service._runtime.environment = Environment(monotonic=slow.monotonic)
        async with service.connect(way.url, workers=False):
            yield service.jobs, slow


async def test_a_job_is_not_moved_when_its_alarm_took_too_long(server: EmbeddedServer) -> None:
    async with slow_producer(server.url) as (jobs, slow), ledger(server.url) as books:
        ref = await jobs.work.create(Task(), delay=A_DAY)
        slow.delay_next_alarm()
        with pytest.raises(NotConfirmed, match="nothing was appended"):
            await ref.reschedule(delay=A_DAY / 2)
        slow.delay_next_alarm()
        with pytest.raises(NotConfirmed, match="nothing was appended"):
            await ref.run_now()
        assert await books.kinds(ref) == ["scheduled"]
        await ref.run_now()
        assert await books.kinds(ref) == ["scheduled", "scheduled"]


async def test_many_jobs_are_not_created_when_their_alarms_took_too_long(
    server: EmbeddedServer,
) -> None:
    async with slow_producer(server.url) as (jobs, slow), ledger(server.url) as books:
        slow.delay_next_alarm()
        with pytest.raises(SomeNotCreated) as failed:
            await jobs.work.create_many([Task()] * MANY, delay=A_DAY)
        assert len(failed.value.failed) == MANY
        assert all("nothing was appended" in str(each) for each in failed.value.failed.values())
        assert await books.count(EventKind.SCHEDULED) == 0
        assert len(await jobs.work.create_many([Task()] * MANY, delay=A_DAY)) == MANY
