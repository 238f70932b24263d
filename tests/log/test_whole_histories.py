"""A history is read whole or not at all, whatever happens to the server meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests import given
from tests.admin.projection_lab import LogLab, log_lab
from tests.given import REPORT
from tests.keys import keyed_lab
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.fault_proxy import fault_proxy
from tests.support.lab import probe
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import NotConfirmed
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.keys.scan import KeyChanges
from trellis_jobs.jetstream.log.history import Histories
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.job_status import Head

SOMEWHERE = subjects.lifecycle(REPORT, EventKind.STARTED)
# More than one pull.
LENGTH = 1_200
NO_ENDS = (b"404 No Messages", b"408 Request Timeout", b"409 Leadership Change", b"503")
BROKEN = (b"409 Leadership Change", b"409 Server Shutdown", b"409 Consumer Deleted", b"503")


@pytest.fixture
async def lab(server: EmbeddedServer) -> AsyncIterator[LogLab]:
    async with log_lab(server.url) as made:
        for _ in range(LENGTH):
            made.scribe.add(SOMEWHERE, b"{}")
        await made.send()
        await made.end()
        yield made


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Connection]:
    connection = await Connection.open(url, name="reader")
    try:
        yield connection
    finally:
        await connection.close()


@pytest.mark.parametrize("said", NO_ENDS)
async def test_a_pull_that_ends_early_is_not_the_end_of_the_history(
    lab: LogLab, server: EmbeddedServer, said: bytes
) -> None:
    async with fault_proxy(server.url) as way, opened(way.url) as connection:
        told = way.answer_pulls_with(said, times=2)
        assert len(await Histories(connection).messages(REPORT)) == LENGTH
        assert told() == 2


@pytest.mark.parametrize("said", NO_ENDS)
async def test_a_history_that_cannot_be_read_whole_is_said_so(
    lab: LogLab, server: EmbeddedServer, said: bytes
) -> None:
    async with fault_proxy(server.url) as way, opened(way.url) as connection:
        way.answer_pulls_with(said, times=1000)
        with pytest.raises(NotConfirmed, match="a read of the history"):
            await Histories(connection).messages(REPORT)


async def test_a_closed_connection_is_a_typed_error_too(
    lab: LogLab, server: EmbeddedServer
) -> None:
    async with opened(server.url) as connection:
        await connection.close()
        with pytest.raises(NotConfirmed, match=r"closed before .* a read of the history"):
            await Histories(connection).messages(REPORT)


async def test_a_server_that_dies_and_comes_back_never_cuts_a_history(
    lab: LogLab, server: EmbeddedServer
) -> None:
    reads, lengths, over = 4, list[int](), asyncio.Event()
    histories = Histories(lab.connection)

    async def read() -> None:
        while not over.is_set():
            length = len(await histories.messages(REPORT))
            lengths.append(length)
            assert length == LENGTH

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for _ in range(reads):
            tasks.create_task(read())
        for end in (server.kill, server.restart, server.kill):
            lengths.clear()
            await until(lambda: len(lengths) >= 2 * reads, "histories are read")
            await asyncio.to_thread(end)
            await asyncio.to_thread(server.restart)
        over.set()


@pytest.mark.parametrize("said", BROKEN)
async def test_a_look_at_all_keys_that_breaks_off_counts_for_nothing(
    server: EmbeddedServer, said: bytes
) -> None:
    async with (
        keyed_lab.producer(server.url) as jobs,
        fault_proxy(server.url) as way,
        opened(way.url) as connection,
    ):
        await jobs.patient.create(Task())
        changes = KeyChanges(connection)
        way.answer_pulls_with(said, times=1)
        with pytest.raises(NotConfirmed, match="a scan of all keys"):
            await changes.since_last()
        are_all, changed = await changes.since_last()
        assert (are_all, len(changed)) == (True, 1)
        assert await changes.since_last() == (False, {})


async def test_a_history_that_must_reach_an_event_is_read_until_it_does(
    server: EmbeddedServer,
) -> None:
    """As if the replica that is asked had not got it yet."""
    async with log_lab(server.url), probe(server.url) as raw, opened(server.url) as listening:
        reads: list[str] = []
        await listening.subscribe(
            "$JS.API.CONSUMER.CREATE.JOBS.>", lambda message: reads.append(message.subject)
        )
        await listening.flush()
        created = await raw.events.try_append(None, given.created())
        assert isinstance(created, Head)
        reading = asyncio.create_task(raw.events.history(REPORT, at_least=created.sequence + 1))
        await until(lambda: len(reads) > 1, "the first read was not enough")
        await raw.events.try_append(created, given.started())
        assert [entry.event.kind for entry in await reading] == ["created", "started"]


async def test_a_history_that_left_the_log_is_not_waited_for_without_end(
    server: EmbeddedServer,
) -> None:
    async with log_lab(server.url), probe(server.url) as raw:
        assert await raw.events.history(REPORT, at_least=4711) == []
