"""A replica that is behind replies to reads of alarms."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.delays.delay_lab import ALARMS, SERVICE, ledger, worker
from tests.support.fault_proxy import fault_proxy
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import utc_now
from trellis_jobs.errors import NotConfirmed
from trellis_jobs.jetstream.alarms.alarms import Alarms
from trellis_jobs.model import subjects
from trellis_jobs.model.identity import JobAddress


async def test_an_alarm_is_not_published_without_a_pause_while_a_replica_is_behind(
    server: EmbeddedServer,
) -> None:
    async with worker(server.url, "work"), fault_proxy(server.url) as way, ledger(way.url) as books:
        alarms = Alarms(books.raw.connection, books.raw.features, utc_now)
        first, second = (
            subjects.alarm_of_job(JobAddress(SERVICE, "work", job_id)) for job_id in "AB"
        )
        tomorrow = utc_now() + timedelta(days=1)
        for address in (first, second):
            await alarms.set(address, tomorrow)
        old = b"NATS/1.0\r\nNats-Sequence: 1\r\nNats-Subject: x\r\n\r\n"
        way.answer_reads_with(old, b"", 10_000, stream=ALARMS.encode())
        sent: list[str] = []
        way.on_message(sent.append)
        with pytest.raises(NotConfirmed):
            await alarms.set(second, tomorrow - timedelta(hours=1), timeout=1.0)
        assert 2 <= sent.count(subjects.alarm(second)) < 15
