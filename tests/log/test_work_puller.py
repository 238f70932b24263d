"""Deliveries come as they were asked for, and who asked knows when the last of them has come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import LAB, Probe, probe, producer
from trellis_jobs.contract.topology import WORK
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import monotonic
from trellis_jobs.jetstream.work import puller
from trellis_jobs.jetstream.work.delivery import Delivery
from trellis_jobs.jetstream.work.puller import WorkPuller


@asynccontextmanager
async def listening(
    raw: Probe, receive: Callable[[Delivery | None], None]
) -> AsyncIterator[WorkPuller]:
    queue = WorkPuller(raw.connection, "lab", LAB.contract.queues["slow"], receive, monotonic)
    await queue.open()
    await queue.subscribe()
    yield queue
    await queue.unsubscribe()


@pytest.mark.parametrize("size", [1, 3])
async def test_it_is_told_when_nothing_more_is_owed(server: EmbeddedServer, size: int) -> None:
    """Slots that were freed meanwhile would stay empty."""
    received: list[Delivery | None] = []
    async with producer(server.url) as jobs, probe(server.url) as raw:
        await jobs.slow.create_many([Task()] * (size + 1))
        async with listening(raw, received.append) as queue:
            queue.request(size)
            await until(lambda: None in received, "it is told")
    assert [each is None for each in received] == [False] * size + [True]


async def test_what_a_pull_ended_without_is_owed_no_longer(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server takes turns among pulls, and tells of each what it still had to deliver."""
    owed_at_an_end: list[int] = []
    async with producer(server.url) as jobs, probe(server.url) as raw:

        def receive(delivery: Delivery | None) -> None:
            if delivery is None:
                owed_at_an_end.append(queue.outstanding)

        async with listening(raw, receive) as queue:
            monkeypatch.setattr(puller, "PULL_SECONDS", 1.0)
            queue.request(2)
            monkeypatch.setattr(puller, "PULL_SECONDS", 2.0)
            queue.request(2)
            await jobs.slow.create_many([Task()] * 2)
            await until(lambda: len(owed_at_an_end) == 2, "both pulls end")
    assert owed_at_an_end == [1, 0]


async def test_too_many_pulls_are_not_answered_with_more(server: EmbeddedServer) -> None:
    received: list[Delivery | None] = []
    async with (
        producer(server.url),
        probe(server.url) as raw,
        listening(raw, received.append) as queue,
    ):
        config = (await raw.consumer("slow"))["config"]
        inbox = raw.connection.new_inbox()
        await raw.connection.subscribe(inbox, lambda _: None)
        for _ in range(config["max_waiting"]):
            await raw.connection.publish(
                f"$JS.API.CONSUMER.MSG.NEXT.{WORK}.{config['name']}",
                b'{"batch":1,"expires":20000000000}',
                reply=inbox,
            )
        queue.request(1)
        await until(lambda: queue.outstanding == 0, "the pull is refused")
    assert received == []
