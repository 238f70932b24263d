"""A triggered job that the key of its queue has no room for."""

from __future__ import annotations

import pytest

from tests.keys.work_lab import by_key
from tests.schedules.lab import clock, clock_producer, clockwork
from tests.support.example_service import Task
from trellis_jobs import Every, QueueDepth
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import NotAdmitted

TASK = Task(key="acme")


async def test_a_trigger_that_is_refused_creates_no_job_later(server: EmbeddedServer) -> None:
    jobs = clock(key=by_key(), queue=QueueDepth(max_queued_per_key=0, when_full="reject"))
    async with clock_producer(server.url, jobs) as made, clockwork(server.url) as found:
        await made.tick.schedules.put("nightly", Every(86400, payload=TASK))
        await made.tick.create(TASK)
        with pytest.raises(NotAdmitted) as refused:
            await made.tick.schedules.trigger("nightly")
        record = await found.record("nightly")
        assert record.unfinished == ()
        assert [run.refused for run in record.runs] == [str(refused.value)]
