"""The newest events of all jobs: nothing is left out silently, nothing comes twice."""

from __future__ import annotations

import pytest

from jobs_admin.api.errors import Invalid
from jobs_admin.api.views.tail import TailView
from tests.admin.admin_lab import AdminLab
from tests.admin.operations_lab import die, numbered, write
from tests.given import created
from tests.support.example_service import Task
from tests.support.lab import probe
from trellis_jobs.jetstream.client import api
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress


def _seqs(view: TailView) -> list[int]:
    return [entry.seq for entry in view.entries]


async def test_a_reader_continues_where_it_stopped(lab: AdminLab) -> None:
    first = await lab.jobs.work.create(Task())
    begun = await lab.client.tail()
    assert (_seqs(begun), begun.seq, begun.skipped) == ([1], 1, 0)
    [entry] = begun.entries
    assert (entry.service, entry.type, entry.id, entry.kind) == ("lab", "work", first.id, "created")
    assert '"do": "answer"' in entry.words
    assert (await lab.client.tail(begun.seq)).entries == ()
    await lab.client.cancel(first.id, reason="twice by mistake")
    second = await lab.jobs.work.create(Task())
    more = await lab.client.tail(begun.seq)
    assert [(entry.kind, entry.id, entry.by) for entry in more.entries] == [
        ("cancelled", first.id, "ann"),
        ("created", second.id, None),
    ]
    assert more.entries[0].words == "by ann: twice by mistake"
    assert (await lab.client.tail(more.seq)).seq == more.seq == 3


async def test_a_reader_that_is_far_behind_gets_the_newest_and_the_number_of_the_others(
    lab: AdminLab,
) -> None:
    async with probe(lab.url) as raw:
        await die(raw, 20)
    view = await lab.client.tail(10, limit=5)
    assert (_seqs(view), view.seq, view.skipped) == ([56, 57, 58, 59, 60], 60, 45)
    assert _seqs(await lab.client.tail(limit=3)) == [58, 59, 60]


async def test_only_the_events_of_a_queue_or_a_kind(lab: AdminLab) -> None:
    async with probe(lab.url) as raw:
        await die(raw, 30)
        await die(raw, 1, first=30, queue="single")
        await die(raw, 30, first=31)
    single = await lab.client.tail(service="lab", type="single")
    assert [entry.kind for entry in single.entries] == ["created", "started", "dead"]
    dead = await lab.client.tail(kind=EventKind.DEAD, limit=40)
    assert [entry.kind for entry in dead.entries] == ["dead"] * 40
    assert dead.seq == dead.entries[-1].seq
    missed = await lab.client.tail(0, kind=EventKind.DEAD, limit=40)
    assert (missed.entries, missed.skipped) == (dead.entries, 21)
    assert (await lab.client.tail(service="other")).entries == ()


async def test_removed_events_leave_no_trace(lab: AdminLab) -> None:
    async with probe(lab.url) as raw:
        await die(raw, 3)
        gone = f"trellis.jobs.lab.work.{numbered(1).job_id}.>"
        await api.request(raw.connection, "STREAM.PURGE.JOBS", {"filter": gone})
    entries = (await lab.client.tail(0)).entries
    assert {entry.id for entry in entries} == {numbered(0).job_id, numbered(2).job_id}


async def test_an_event_is_one_short_line(lab: AdminLab) -> None:
    job = JobAddress("lab", "work", "long")
    async with probe(lab.url) as raw:
        await write(raw.events, created(job=job, payload={"text": "line\n" * 50_000}))
    [entry] = (await lab.client.tail()).entries
    assert len(entry.words) <= 301
    assert "\n" not in entry.words


async def test_a_message_that_is_no_event_says_why(lab: AdminLab) -> None:
    async with probe(lab.url) as raw:
        await api.request(raw.connection, "STREAM.INFO.JOBS")
        await raw.connection.publish("trellis.jobs.lab.work.odd.created", b"not json")
        await raw.connection.flush()
    [entry] = (await lab.client.tail(0)).entries
    assert (entry.id, entry.words) == ("odd", "")
    assert entry.undecodable


async def test_an_unknown_kind_is_refused_with_those_that_exist(lab: AdminLab) -> None:
    answer = await lab.stranger.refused("Jobs.Tail", b'{"kind": "exploded"}')
    assert answer["type"] == "ValidationError"
    assert "completed" in str(answer["issues"])
    with pytest.raises(Invalid):
        await lab.client.tail(limit=501)
