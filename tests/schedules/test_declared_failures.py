"""Declared schedules that cannot be applied when a worker starts."""

from __future__ import annotations

import logging
from datetime import datetime

import pytest

from tests.schedules.lab import TASK, clock, clock_producer, clockwork
from tests.support.fault_proxy import Then, fault_proxy
from trellis_jobs import Every
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import Environment, utc_now
from trellis_jobs.jetstream.alarms.alarms import Alarms
from trellis_jobs.jetstream.schedules.schedules import Schedules
from trellis_jobs.scheduler.declared_schedules import DeclaredSchedules


class BrokenClock:
    def __init__(self) -> None:
        self.failures = 1

    def now(self) -> datetime:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("the clock is broken")
        return utc_now()


async def test_a_schedule_that_fails_does_not_block_the_others_and_is_tried_again(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = clock({"bad": Every(60, payload=TASK), "good": Every(60, payload=TASK)})
    async with clock_producer(server.url, jobs), fault_proxy(server.url) as way:
        async with clockwork(way.url) as found:
            alarms = Alarms(found.raw.connection, found.raw.features, utc_now)
            brief = Schedules(found.records, alarms, timeout=0.3)
            declared = DeclaredSchedules(jobs.contract, brief, Environment(), retry_delay=0.05)
            way.when_client_sends(rb"HPUB \S+\.schedules\.\S+\.bad ", lambda: Then.SWALLOW, uses=2)
            failed = await declared.apply()
            assert [address.schedule for address in failed] == ["bad"]
            assert (await found.stored("good")).exists
            with caplog.at_level(logging.INFO):
                await declared.keep_applying()
            assert (await found.stored("bad")).exists
        assert caplog.text.count("could not be applied, retrying") == 1
        assert caplog.text.count("are applied now") == 1


async def test_an_unexpected_error_is_logged_and_the_schedules_are_applied_again(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = clock({"pulse": Every(60, payload=TASK)})
    async with clock_producer(server.url, jobs), clockwork(server.url) as found:
        alarms = Alarms(found.raw.connection, found.raw.features, utc_now)
        schedules, broken = Schedules(found.records, alarms), Environment(now=BrokenClock().now)
        await DeclaredSchedules(jobs.contract, schedules, broken, retry_delay=0.05).keep_applying()
        assert (await found.stored("pulse")).exists
        assert "the clock is broken" in caplog.text
