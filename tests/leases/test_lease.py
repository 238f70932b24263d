"""Renewals of a delivery: often enough, and never after another worker may have it."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.support.facts import DEADLINE, until
from tests.support.lab import probe
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import utc_now
from trellis_jobs.errors import CredentialsRefused, InfrastructureError, InfrastructureMissing
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.work.lease_keeper import Lease, LeaseKeeper

RENEWED_AT = 100.0


@pytest.mark.parametrize(
    ("now", "is_due", "has_lapsed"),
    [
        (100.0, False, False),
        (102.9, False, False),
        (103.0, True, False),
        (109.0, True, False),
        (109.1, False, True),
        (500.0, False, True),
    ],
)
def test_a_lease_is_due_after_a_third_and_never_renewed_after_a_lapse(
    now: float, is_due: bool, has_lapsed: bool
) -> None:
    lease = Lease("reply", seconds=9.0, renewed_at=RENEWED_AT)
    assert (lease.is_due(now), lease.has_lapsed(now)) == (is_due, has_lapsed)


async def test_leases_are_renewed_again_after_the_server_refused_the_connection_for_a_while(
    server: EmbeddedServer,
) -> None:
    refusals: list[InfrastructureError] = [
        CredentialsRefused(server.url),
        InfrastructureMissing("the account"),
    ]

    async def connect() -> Connection:
        if refusals:
            raise refusals.pop()
        return await Connection.open(server.url, name="leases")

    renewed = asyncio.Event()
    async with probe(server.url) as raw:
        await raw.connection.subscribe("a.delivery", lambda _: renewed.set())
        keeper = LeaseKeeper(connect, utc_now, time.monotonic, interval=0.1)
        keeper.start()
        keeper.keep(Lease("a.delivery", seconds=20.0, renewed_at=time.monotonic() - 10))
        async with asyncio.timeout(DEADLINE):
            await renewed.wait()
        await keeper.stop()


class EndingLoop(asyncio.SelectorEventLoop):
    """The loop of a thread that ends right after a caller saw that it was still open."""

    seen_open = 0

    def is_closed(self) -> bool:
        self.seen_open -= 1
        return super().is_closed() and self.seen_open < 0


async def test_waking_a_keeper_whose_thread_just_ended_raises_nothing() -> None:
    async def connect() -> Connection:
        raise InfrastructureMissing("a server")

    keeper = LeaseKeeper(connect, utc_now, time.monotonic, interval=0.1)
    keeper._loop = ended = EndingLoop()
    ended.close()
    ended.seen_open = 1
    keeper.wake()
    ended.seen_open = 0


class HeartbeatsThatFailOnce:
    interval = 0.05

    def __init__(self) -> None:
        self.beats = 0

    async def beat(self, connection: Connection, *, stopping: bool = False) -> None:
        self.beats += 1
        if self.beats == 1:
            raise ValueError("a mistake in a heartbeat")


async def test_an_unexpected_error_does_not_end_the_thread_that_renews_leases(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    heartbeats = HeartbeatsThatFailOnce()

    async def connect() -> Connection:
        return await Connection.open(server.url, name="leases")

    keeper = LeaseKeeper(connect, utc_now, time.monotonic, 0.1, heartbeats)
    keeper.start()
    await until(lambda: heartbeats.beats > 1, "the thread continues after the error")
    await keeper.stop()
    assert "renewing leases failed unexpectedly" in caplog.text
