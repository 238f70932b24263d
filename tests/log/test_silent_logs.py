"""A log that says nothing is not asked for ever, and is told so as long as it took."""

from __future__ import annotations

import asyncio

import pytest

from tests.admin.projection_lab import log_lab
from tests.given import REPORT
from tests.support.facts import DEADLINE, until
from tests.support.fault_proxy import Then, fault_proxy
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import NotConfirmed, Unreachable
from trellis_jobs.jetstream.client import pending_requests
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.log import reads as log_reads
from trellis_jobs.jetstream.log.history import Histories
from trellis_jobs.jetstream.log.reads import LogReads


async def test_a_leader_is_asked_as_often_as_any_replica_and_within_the_timeout(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def say_nothing() -> Then:
        asked.append("again")
        return Then.SWALLOW

    monkeypatch.setattr(pending_requests, "SWEEP_INTERVAL", 0.01)
    async with log_lab(server.url), fault_proxy(server.url) as way:
        connection = await Connection.open(way.url, name="asking", max_wait=0.1)
        try:
            reads = LogReads(connection, Histories(connection))
            assert await reads.newest_sequence_from_leader(REPORT) == 0
            monkeypatch.setattr(log_reads, "ACK_TIMEOUT", 0.01)
            way.when_client_sends(rb"heartbeat", say_nothing, uses=1000)
            with pytest.raises(NotConfirmed, match="from the leader") as unsure:
                await reads.newest_sequence_from_leader(REPORT)
            assert len(asked) == 15
            assert "within 50 s" not in str(unsure.value)
            way.refuse()
            await until(lambda: not connection.is_connected, "the server went away")
            async with asyncio.timeout(DEADLINE):
                with pytest.raises(Unreachable):
                    await reads.newest_sequence_from_leader(REPORT)
        finally:
            await connection.close()
