"""The whole log in batches: all of it, once, in order, whatever strangers wrote into it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.admin.projection_lab import LogLab, log_lab
from tests.given import REPORT
from tests.support.facts import until
from tests.support.fault_proxy import Then, fault_proxy
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.log.feed import LogFeed, LogPosition, LogReplaced
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind

SOMEWHERE = subjects.lifecycle(REPORT, EventKind.STARTED)


@pytest.fixture
async def lab(server: EmbeddedServer) -> AsyncIterator[LogLab]:
    async with log_lab(server.url) as made:
        yield made


async def sequences(lab: LogLab, after: LogPosition, until: int) -> list[int]:
    async with asyncio.timeout(20):
        batches = [batch async for batch in lab.feed.up_to(after, until)]
    return [message.sequence for batch in batches for message in batch]


async def test_ten_thousand_messages_come_once_in_order_from_one_consumer(lab: LogLab) -> None:
    """The end of each pull, which servers tell, is not the end of the consumer."""
    for _ in range(10_000):
        lab.scribe.add(SOMEWHERE, b"{}")
    await lab.send()
    end = await lab.end()
    made = list[str]()
    subject = "$JS.EVENT.ADVISORY.CONSUMER.CREATED.JOBS.*"
    await lab.connection.subscribe(subject, lambda message: made.append(message.subject))
    assert await sequences(lab, LogPosition(), end) == list(range(1, end + 1))
    await until(lambda: made, "the server told of the consumer")
    assert len(made) == 1


async def test_no_consumer_stays_behind(lab: LogLab) -> None:
    before = await consumers(lab)
    lab.scribe.add(SOMEWHERE, b"{}")
    await lab.send()
    assert await sequences(lab, LogPosition(), await lab.end()) == [1]

    async def is_as_before() -> bool:
        return await consumers(lab) == before

    await until(is_as_before, "the feed's consumer is gone")


@pytest.mark.parametrize("end", [b"409 Leadership Change", b"409 Server Shutdown", b"503", b"408"])
async def test_an_end_that_is_none_loses_no_message(
    lab: LogLab, server: EmbeddedServer, end: bytes
) -> None:
    for _ in range(5):
        lab.scribe.add(SOMEWHERE, b"{}")
    await lab.send()
    last = await lab.end()
    async with fault_proxy(server.url) as way:
        connection = await Connection.open(way.url, name="feed")
        told = way.answer_pulls_with(end, times=2)
        found = list[int]()
        async for batch in LogFeed(connection).batches(LogPosition()):
            found += [message.sequence for message in batch]
            if found[-1] == last:
                break
        await connection.close()
    assert found == [1, 2, 3, 4, 5]
    assert told() == 2


@pytest.mark.parametrize("end", [b"404 No Messages", b"408 Request Timeout"])
async def test_a_server_that_stalls_is_not_at_the_end_of_the_log(
    lab: LogLab, server: EmbeddedServer, tmp_path: Path, end: bytes
) -> None:
    """Its pull is over, and it has sent nothing of all that it holds."""
    await lab.write_jobs(20)
    last = await lab.end()
    async with fault_proxy(server.url) as way:
        connection = await Connection.open(way.url, name="feed")
        told = way.answer_pulls_with(end, times=2)
        stalling = LogLab(connection)
        assert await sequences(stalling, LogPosition(), last) == list(range(1, last + 1))
        assert told() == 2
        told = way.answer_pulls_with(end, times=1)
        rows = await stalling.fresh_rows(tmp_path)
        assert told() == 1
        await connection.close()
    assert rows == await lab.fresh_rows(tmp_path)


async def test_a_replica_that_has_no_more_is_not_the_end_of_the_log(lab: LogLab) -> None:
    """What it lacks comes later: here it is written only when the reader has the rest."""
    lab.scribe.add(SOMEWHERE, b"{}")
    await lab.send()
    await lab.end()
    found = list[int]()
    async for batch in lab.feed.up_to(LogPosition(), 2):
        if not found:
            await lab.connection.request(SOMEWHERE, b"{}")
        found += [message.sequence for message in batch]
    assert found == [1, 2]


async def test_messages_that_were_lost_on_the_way_are_read_again(
    lab: LogLab, server: EmbeddedServer
) -> None:
    """A connection may break with deliveries in it, and bring the next of the same consumer."""
    lab.scribe.add(SOMEWHERE, b"{}")
    await lab.send()
    async with fault_proxy(server.url) as way:
        connection = await Connection.open(way.url, name="feed")
        found, lost = list[int](), list[bool]()

        def lose() -> Then:
            lost.append(True)
            return Then.SWALLOW

        async for batch in LogFeed(connection).batches(LogPosition()):
            found += [message.sequence for message in batch]
            if found == [1]:
                way.when_server_sends(rb"MSG trellis\.jobs\.", lose)
                await lab.connection.request(SOMEWHERE, b"{}")
                await until(lambda: lost, "the second message is lost")
                await lab.connection.request(SOMEWHERE, b"{}")
            if found[-1] == 3:
                break
        await connection.close()
    assert found == [1, 2, 3]


async def test_a_message_that_looks_like_the_end_of_a_pull_is_a_message(lab: LogLab) -> None:
    forged = {"Status": "409", "Description": "Consumer Deleted", "Nats-Pending-Messages": "9"}
    for headers in (None, forged, {"Status": "408"}, {"Status": "100"}, None):
        await lab.connection.request(SOMEWHERE, b"{}", headers=headers)
    assert await sequences(lab, LogPosition(), await lab.end()) == [1, 2, 3, 4, 5]


async def test_reading_goes_on_after_a_place(lab: LogLab) -> None:
    for _ in range(5):
        lab.scribe.add(SOMEWHERE, b"{}")
    await lab.send()
    end = await lab.end()
    assert await sequences(lab, LogPosition(3), end) == [4, 5]
    assert await sequences(lab, LogPosition(end), end) == []


async def test_gaps_at_a_place_and_at_the_end_are_no_obstacle(lab: LogLab) -> None:
    for _ in range(6):
        lab.scribe.add(SOMEWHERE, b"{}")
    await lab.send()
    end = await lab.end()
    for gone in (2, 3, end):
        await api.request(lab.connection, "STREAM.MSG.DELETE.JOBS", {"seq": gone})
    assert await sequences(lab, LogPosition(2, stored_ns=7), end) == [4, 5]
    assert await sequences(lab, LogPosition(end, stored_ns=7), end) == []


async def test_a_place_of_another_log_is_refused(lab: LogLab) -> None:
    lab.scribe.add(SOMEWHERE, b"{}").add(SOMEWHERE, b"{}")
    await lab.send()
    end = await lab.end()
    created = (await lab.feed.extent()).created
    for place in (
        LogPosition(1, created="before"),
        LogPosition(9, created=created),
        LogPosition(1, stored_ns=7),
    ):
        with pytest.raises(LogReplaced):
            await sequences(lab, place, end)


async def test_batches_are_no_larger_than_asked_for(lab: LogLab) -> None:
    for _ in range(50):
        lab.scribe.add(SOMEWHERE, b"{}")
    await lab.send()
    feed = LogFeed(lab.connection, max_batch=7)
    sizes = [len(batch) async for batch in feed.up_to(LogPosition(), await lab.end())]
    assert sum(sizes) == 50
    assert max(sizes) <= 7


async def consumers(lab: LogLab) -> int:
    listed = await api.request(lab.connection, "CONSUMER.NAMES.JOBS")
    return len(listed["consumers"])
