"""The log followed from a sequence or from a time on; jobs found by their id alone."""

from __future__ import annotations

from contextlib import aclosing
from datetime import datetime

from tests.support.example_service import Task
from tests.support.lab import probe, producer
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.log.feed import LogMessage
from trellis_jobs.jetstream.log.history import Histories
from trellis_jobs.jetstream.log.job_lookup import jobs_with_id
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress


async def first(
    connection: Connection, count: int, *, after: int = 0, since: datetime | None = None
) -> list[LogMessage]:
    messages = Histories(connection).follow_messages(
        subjects.matching("lab"), after=after, since=since
    )
    found: list[LogMessage] = []
    async with aclosing(messages):
        async for message in messages:
            found.append(message)
            if len(found) == count:
                break
    return found


async def test_what_follows_a_sequence_or_was_stored_since_a_time(server: EmbeddedServer) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        for _ in range(4):
            await jobs.work.create(Task())
        everything = await first(raw.connection, 4)
        third = everything[2]
        assert await first(raw.connection, 2, after=everything[1].sequence) == everything[2:]
        assert await first(raw.connection, 2, since=third.stored_at) == everything[2:]


async def test_the_end_of_what_is_there_can_be_told(server: EmbeddedServer) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        for _ in range(3):
            await jobs.work.create(Task())
        assert [message.pending for message in await first(raw.connection, 3)] == [2, 1, 0]


async def test_a_job_is_found_by_its_id_in_whichever_queues_have_it(
    server: EmbeddedServer,
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        one = await jobs.work.create(Task())
        for queue in (jobs.work, jobs.single):
            await queue.create(Task(), job_id="twice")
        assert await jobs_with_id(raw.connection, one.id) == [one.address]
        assert await jobs_with_id(raw.connection, "nope") == []
        assert await jobs_with_id(raw.connection, "twice") == [
            JobAddress("lab", "single", "twice"),
            JobAddress("lab", "work", "twice"),
        ]


async def test_the_presence_of_workers_is_no_job_of_that_id(server: EmbeddedServer) -> None:
    """`workers.<service>.<type>.<instance>` has its type where jobs have their id."""
    async with producer(server.url), probe(server.url) as raw:
        await raw.connection.request(subjects.presence("lab", "nope", "pod-7"), b"{}")
        assert await jobs_with_id(raw.connection, "nope") == []
        assert subjects.matching("lab", None, EventKind.DEAD) == subjects.of_kind(
            "lab", "*", EventKind.DEAD
        )
