"""What is in the log and did not count can be looked at."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest

from tests.admin.admin_lab import AdminLab
from tests.given import started
from tests.support.example_service import Task
from tests.support.lab import probe, worker
from trellis_jobs.jetstream.client import api
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job_status import JobStatus
from trellis_jobs.model.reducer import advance
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import replace
from trellis_jobs.wire import events as wire


async def test_events_and_messages_that_did_not_count_are_listed(lab: AdminLab) -> None:
    ref = await lab.jobs.work.create(Task())
    async with probe(lab.url) as raw:
        head = await raw.events.head(ref.address)
        assert head is not None
        event = replace(started(), job=ref.address)
        status = advance(head.status, event)
        assert isinstance(status, JobStatus)
        data = wire.encode(event, status, None)
        subject = subjects.lifecycle(ref.address, EventKind.STARTED)
        await raw.connection.request(subject, data, timeout=5)
        await raw.connection.request(subject, data, timeout=5)
        await raw.connection.request(subject, b"rubbish", timeout=5)
        info = await api.request(raw.connection, "STREAM.INFO.JOBS")
    last = int(info["state"]["last_seq"])
    newest = await lab.client.list_ignored(limit=1, min_seq=last)
    assert (newest.count, newest.next_offset) == (2, 1)
    rubbish, twice = [entry async for entry in lab.client.ignored(page=1)]
    assert (rubbish.seq, rubbish.subject, rubbish.size) == (last, subject, len(b"rubbish"))
    assert rubbish.reason
    assert rubbish.id is None
    assert (twice.seq, twice.service, twice.type, twice.id) == (last - 1, "lab", "work", ref.id)
    assert (twice.kind, twice.subject) == ("started", None)
    assert twice.reason


async def test_a_message_whose_subject_is_not_text_ends_no_subscription(lab: AdminLab) -> None:
    """The server takes any bytes: into the log, and from there into the work queue."""
    async with worker(lab.url, "work") as bench:
        await published(lab.url, b"trellis.jobs.lab.work.J\xff.created")
        ref = await bench.jobs.work.create(Task(text="after"))
        assert (await ref.wait(timeout=20)).text == "after"
        async with probe(lab.url) as raw:
            info = await api.request(raw.connection, "STREAM.INFO.JOBS")
        ignored = await lab.client.list_ignored(min_seq=int(info["state"]["last_seq"]))
    assert [entry.subject for entry in ignored.entries] == [
        "trellis.jobs.lab.work.J\N{REPLACEMENT CHARACTER}.created"
    ]


async def published(url: str, subject: bytes) -> None:
    """By a client that does not mind what a subject is."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(b'CONNECT {"verbose":false}\r\nPUB %b 2\r\n{}\r\nPING\r\n' % subject)
    await reader.readuntil(b"PONG")
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize(
    ("service", "job_type", "found"),
    [
        ("lab", None, {1, 2, 3, 4}),
        ("lab", "work", {1, 2, 3}),
        (None, "work", {1, 2, 3, 5}),
        ("other", "work", {5}),
        ("la", None, set()),
        (None, "wor", set()),
        (None, None, {1, 2, 3, 4, 5}),
    ],
)
async def test_only_those_of_a_service_or_a_type_are_listed(
    lab: AdminLab, service: str | None, job_type: str | None, found: set[int]
) -> None:
    """An event that is not legal, and messages that are none: by what their subjects say."""
    async with probe(lab.url) as raw:
        event = replace(started(), job=JobAddress("lab", "work", "A"))
        status = JobStatus(JobState.ACTIVE, tries=1, max_tries=5, run=1)
        subject = subjects.lifecycle(event.job, EventKind.STARTED)
        await raw.connection.request(subject, wire.encode(event, status, None), timeout=5)
        for job in ("lab.work.A", "lab.work.B", "lab.plain.work", "other.work.A"):
            await raw.connection.request(f"trellis.jobs.{job}.started", b"rubbish", timeout=5)
    listed = await lab.client.list_ignored(service=service, type=job_type, min_seq=5)
    assert {entry.seq for entry in listed.entries} == found
    assert listed.count == len(found)
