"""A record that is written long after its alarm: the alarm would be dropped before it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.schedules.lab import TASK, address, clock, clock_producer, clockwork
from tests.support.fault_proxy import Then, fault_proxy
from trellis_jobs import Every
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import utc_now
from trellis_jobs.errors import NotConfirmed
from trellis_jobs.jetstream.alarms.alarms import Alarms
from trellis_jobs.jetstream.schedules.schedules import Schedules
from trellis_jobs.model.alarms import EVENT_MAY_FOLLOW
from trellis_jobs.model.schedules.changes import pause
from trellis_jobs.model.schedules.record import Decision, Pause, ScheduleRecord


def _paused(record: ScheduleRecord | None) -> Decision:
    assert record is not None
    return pause(record, Pause(since=utc_now()))


async def test_a_writer_gives_up_while_its_alarm_still_waits_for_the_record(
    server: EmbeddedServer,
) -> None:
    """The stream of records does not reply, and would for minutes."""
    async with clock_producer(server.url, clock()) as jobs, fault_proxy(server.url) as way:
        await jobs.tick.schedules.put("pulse", Every(60, payload=TASK))
        async with clockwork(way.url) as found:
            alarms = Alarms(found.raw.connection, found.raw.features, utc_now)
            usual = Schedules(found.records, alarms)
            assert timedelta(seconds=usual.timeout) < EVENT_MAY_FOLLOW
            brief = Schedules(found.records, alarms, timeout=0.3)
            way.when_client_sends(rb"HPUB \S+\.schedules\.", lambda: Then.SWALLOW, uses=100)
            with pytest.raises(NotConfirmed, match=str(address("pulse"))):
                await brief.change(address("pulse"), _paused)
        assert (await jobs.tick.schedules.get("pulse")).paused is None
