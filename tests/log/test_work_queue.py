"""Deliveries come as they were asked for, and who asked knows when the last of them has come."""

from __future__ import annotations

import pytest

from tests.support.facts import until
from tests.support.lab import LabJobs, Task, probe, producer
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.deliveries import Delivery
from trellis_jobs.jetstream.work_queue import WorkQueue
from trellis_jobs.surroundings import uptime


@pytest.mark.parametrize("size", [1, 3])
async def test_it_is_told_when_nothing_more_is_owed(server: EmbeddedServer, size: int) -> None:
    """Seats that were vacated meanwhile would stay empty."""
    async with producer(server.url) as jobs, probe(server.url) as raw:
        await jobs.work.create_many([Task()] * (size + 1))
        received: list[Delivery | None] = []
        queue = WorkQueue(raw.connection, "lab", LabJobs.work, received.append, uptime)
        await queue.open()
        await queue.listen()
        queue.ask(size)
        await until(lambda: None in received, "it is told")
        await queue.deafen()
        assert [each is None for each in received] == [False] * size + [True]
