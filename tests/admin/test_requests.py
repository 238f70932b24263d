"""Every request that reads: what it answers, as the client sees it and as it is on the wire."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import BaseModel

from jobs_admin.api.client import AdminClient
from jobs_admin.api.client_errors import error_from
from jobs_admin.api.errors import Invalid, NotFound
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.reasons import Because
from jobs_admin.api.views.base import Page
from jobs_admin.api.views.doctor import AttentionView, Diagnosis
from jobs_admin.api.views.health import HealthView
from jobs_admin.api.views.jobs import ExplanationView, JobPage, LogEntry, OneJob
from jobs_admin.api.views.keys import BusyKeyView, KeyView
from jobs_admin.api.views.queues import QueueView
from jobs_admin.api.views.services import ServiceView, StatsView
from tests.admin.admin_lab import AdminLab, daemon_at, stranger_at, time_passes
from tests.keys.keyed_lab import worker as helpdesk_worker
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import producer, until_state, worker
from trellis_jobs import JobRef
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import utc_now
from trellis_jobs.errors import NotConfirmed, ServiceMissing
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.client.rpc import Reply, Request, RpcServer
from trellis_jobs.jetstream.log.presence import Presence
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.presence import WorkerHeartbeat
from trellis_jobs.model.states import JobState


async def seq_of(lab: AdminLab, ref: JobRef[Any]) -> int:
    """The newest event of a job that is in the log."""
    return (await lab.daemon.events.history(ref.address))[-1].sequence


async def test_a_job_is_found_by_its_id(lab: AdminLab) -> None:
    ref = await lab.jobs.work.create(Task(text="hello"))
    found = await lab.client.get(ref.id, min_seq=await seq_of(lab, ref))
    assert (found.id, found.service, found.type) == (ref.id, "lab", "work")
    assert found.state is JobState.PENDING
    assert found.payload == Task(text="hello").model_dump()
    assert (found.tries, found.max_tries) == (0, 3)


async def test_a_job_that_never_was_is_not_found(lab: AdminLab) -> None:
    for ask in (lab.client.get, lab.client.explain, lab.client.list_events, lab.client.cancel):
        with pytest.raises(NotFound, match="there is no job 01NOSUCH"):
            await ask("01NOSUCH")
    with pytest.raises(NotFound):
        await lab.client.list_events(JobAddress("lab", "work", "01NOSUCH"))


async def test_an_id_that_two_queues_have_needs_its_address(lab: AdminLab) -> None:
    ref = await lab.jobs.work.create(Task())
    [entry] = await lab.daemon.events.history(ref.address)
    twin = JobAddress("other", "work", ref.id)
    copied = {
        "jobId": ref.id,
        "service": "other",
        "jobType": "work",
        "eventType": "created",
        "state": "pending",
        "tries": 0,
        "payload": {},
        "timestamp": "2026-01-01T00:00:00Z",
        "context": {
            "requestId": "r",
            "traceId": entry.event.context.trace_id,
            "traceparent": entry.event.context.traceparent,
        },
    }
    acked = await lab.stranger.connection.request(
        subjects.lifecycle(twin, EventKind.CREATED), orjson.dumps(copied)
    )
    seq = orjson.loads(acked.data)["seq"]
    with pytest.raises(Invalid, match="pass service and type"):
        await lab.client.get(ref.id, min_seq=seq)
    assert (await lab.client.get(twin)).service == "other"
    assert (await lab.client.cancel(twin)).job.service == "other"
    assert (await lab.client.get(ref.address)).state is JobState.PENDING


async def test_pages_hold_every_job_once_newest_first(lab: AdminLab) -> None:
    refs = [await lab.jobs.work.create(Task(text=str(n))) for n in range(7)]
    seq = await seq_of(lab, refs[-1])
    first = await lab.client.list_jobs(limit=3, min_seq=seq)
    assert (first.count, first.offset, first.limit, first.next_offset) == (7, 0, 3, 3)
    last = await lab.client.list_jobs(offset=6, limit=3)
    assert (len(last.entries), last.next_offset) == (1, None)
    assert [job.id async for job in lab.client.jobs(page=3)] == [ref.id for ref in refs[::-1]]


async def test_a_job_that_moves_to_a_later_page_meanwhile_is_told_once(lab: AdminLab) -> None:
    older, newer = [await lab.jobs.work.create(Task(text=text)) for text in ("older", "newer")]
    await lab.client.get(newer.id)
    told = []
    async for job in lab.client.jobs(page=1):
        told.append(job.id)
        if len(told) == 1:
            newest = await lab.jobs.work.create(Task(text="newest"))
            await lab.client.get(newest.id)
    assert told == [newer.id, older.id]


@pytest.mark.parametrize("iterate", ["jobs", "dead"])
async def test_jobs_that_leave_the_list_in_the_loop_hide_no_others(
    lab: AdminLab, iterate: str
) -> None:
    refs = [await lab.jobs.single.create(Task(do="always fail")) for _ in range(11)]
    async with worker(lab.url, "single"):
        for ref in refs:
            await until_state(ref, JobState.DEAD)
    await lab.client.get(refs[0].id, min_seq=max([await seq_of(lab, ref) for ref in refs]))
    dead = {
        "jobs": lambda: lab.client.jobs(JobFilter(state=[JobState.DEAD]), page=2),
        "dead": lambda: lab.client.dead(JobFilter(service="lab", error="always"), page=2),
    }
    told = []
    async for job in dead[iterate]():
        await lab.client.replay(job.id)
        told.append(job.id)
    assert told == [ref.id for ref in refs[::-1]]


async def test_a_page_begins_at_an_offset_or_before_a_place(lab: AdminLab) -> None:
    place = {"createdAt": "2026-01-01T00:00:00Z", "firstSeq": 7}
    refused = await lab.stranger.ask("Jobs.List", {"limit": 1, "offset": 1, "before": place})
    assert refused["type"] == "ValidationError"
    assert "not both" in refused["message"]
    page = await lab.stranger.ask("Jobs.ListDLQ", {"limit": 1, "before": place})
    assert page["entries"] == []


async def test_what_does_not_fit_into_one_answer_comes_with_the_next_page(lab: AdminLab) -> None:
    large = "x" * 300_000
    refs = [await lab.jobs.work.create(Task(text=large)) for _ in range(5)]
    seq = await seq_of(lab, refs[-1])
    answer = await lab.stranger.ask("Jobs.List", {"limit": 5, "minSeq": seq})
    assert (answer["count"], len(answer["entries"]), answer["nextOffset"]) == (5, 3, 3)
    page = await lab.client.list_jobs(limit=5)
    assert [job.id for job in page.entries] == [ref.id for ref in refs[::-1]]
    found = [job async for job in lab.client.jobs(page=5)]
    assert [job.id for job in found] == [ref.id for ref in refs[::-1]]
    assert all(job.payload == Task(text=large).model_dump() for job in found)


async def test_a_job_too_large_for_an_answer_is_shown_without_what_makes_it_so(
    lab: AdminLab,
) -> None:
    ref = await lab.jobs.single.create(Task(do="always fail", text="x" * 600_000))
    async with worker(lab.url, "single"):
        await until_state(ref, JobState.DEAD)
        changed = await lab.client.replay(ref.id)
        assert changed.job.omitted
        await until_state(ref, JobState.DEAD)
    found = await lab.client.get(ref.id, min_seq=await seq_of(lab, ref))
    assert "payload" in found.omitted
    assert found.payload is None
    assert found.state is JobState.DEAD
    [listed] = (await lab.client.list_jobs()).entries
    assert "payload" in listed.omitted


async def test_every_filter_narrows(lab: AdminLab) -> None:
    red, blue = [await lab.jobs.work.create(Task(text=text)) for text in ("red", "blue")]
    dead = await lab.jobs.single.create(Task(do="always fail", text="No Such Host"))
    async with worker(lab.url, "single"):
        await until_state(dead, JobState.DEAD)
    seq = await seq_of(lab, dead)
    now = datetime.now(UTC)

    async def ids(**wanted: Any) -> list[str]:
        page = await lab.client.list_jobs(JobFilter(**wanted), min_seq=seq)
        return [job.id for job in page.entries]

    assert await ids() == [dead.id, blue.id, red.id]
    assert await ids(service="lab", type="work") == [blue.id, red.id]
    assert await ids(service="another") == []
    assert await ids(state=[JobState.DEAD, JobState.FAILED]) == [dead.id]
    assert await ids(state=[]) == []
    assert await ids(payload={"text": "red"}) == [red.id]
    assert await ids(error="no such host") == [dead.id]
    assert await ids(id_prefix=blue.id[:-1]) == [blue.id]
    assert await ids(since=now + timedelta(hours=1)) == []
    assert await ids(until=now - timedelta(hours=1)) == []
    assert await ids(key="unknown") == []
    assert [job.id async for job in lab.client.dead()] == [dead.id]
    assert (await lab.client.list_dead(JobFilter(type="work"))).count == 0


async def test_the_log_of_a_job_is_told_event_by_event(lab: AdminLab) -> None:
    ref = await lab.jobs.work.create(Task(do="fail once"))
    async with worker(lab.url, "work"):
        await ref.wait(timeout=20)
    kinds = ["created", "started", "retry", "started", "completed"]
    told = [entry async for entry in lab.client.events(ref.address, page=2)]
    assert [entry.event and entry.event["eventType"] for entry in told] == kinds
    assert [entry.state for entry in told] == ["pending", "active", "retry", "active", "completed"]
    history = await lab.daemon.events.history(ref.address)
    assert [entry.seq for entry in told] == [entry.sequence for entry in history]
    page = await lab.client.list_events(ref.address, offset=4, limit=2)
    assert (page.count, len(page.entries), page.next_offset) == (5, 1, None)


async def test_what_did_not_count_is_told_with_its_reason(lab: AdminLab) -> None:
    ref = await lab.jobs.work.create(Task())
    seq = (await lab.client.cancel(ref.address)).seq
    subject = subjects.lifecycle(ref.address, EventKind.COMPLETED)
    [first, _] = [entry async for entry in lab.client.events(ref.id)]
    late = {**(first.event or {}), "eventType": "completed", "state": "completed"}
    for body in (orjson.dumps(late), b"no event"):
        await lab.stranger.connection.request(subject, body)
    *_, ignored, garbage = [entry async for entry in lab.client.events(ref.address)]
    assert ignored.seq > seq
    assert ignored.ignored == "completed is not legal from cancelled"
    assert ignored.state is None
    assert garbage.event is None
    assert "not JSON" in (garbage.undecodable or "")


async def test_services_are_listed_with_their_workers_and_their_unattended_types(
    lab: AdminLab,
) -> None:
    waiting = await lab.jobs.single.create(Task())
    async with worker(lab.url, "work"):

        async def seen() -> ServiceView | None:
            page = await lab.client.list_services(min_seq=await seq_of(lab, waiting))
            return next((each for each in page.entries if each.workers), None)

        found = await until(seen, "the worker's heartbeat is there")
    assert found.name == "lab"
    assert [each.job_type for each in found.workers] == ["work"]
    by_type = {each.type: each for each in found.types}
    assert by_type["single"].unattended
    assert not by_type["work"].unattended
    assert not found.healthy
    assert [service.name async for service in lab.client.services(page=1)] == ["lab"]


async def test_numbers_over_all_jobs(lab: AdminLab) -> None:
    ref = await lab.jobs.work.create(Task())
    seq = (await lab.client.cancel(ref.address)).seq
    await lab.jobs.single.create(Task())

    async def counted() -> StatsView | None:
        told = await lab.client.stats()
        return told if sum(told.states.values()) == 2 else None

    told = await until(counted, "both are counted")
    assert told.states == {"cancelled": 1, "pending": 1}
    assert {each.type for each in told.types} == {"work", "single"}
    assert (await lab.client.stats(type="work")).states == {"cancelled": 1}
    assert seq == 2


async def test_a_job_is_explained_as_it_moves(lab: AdminLab) -> None:
    ref = await lab.jobs.work.create(Task(do="wait"))
    explained = await lab.client.explain(ref.id, min_seq=await seq_of(lab, ref))
    assert explained.because is Because.NO_WORKER
    async with worker(lab.url, "work") as bench:
        await bench.until_running(ref)

        async def running() -> ExplanationView | None:
            told = await lab.client.explain(ref.address)
            return told if told.because is Because.RUNNING else None

        told = await until(running, "its worker's heartbeat is there")
        assert told.details["instance"]
        bench.go.set()
        await ref.wait(timeout=20)
    assert (await lab.client.explain(ref.id)).because is Because.COMPLETED


async def test_a_worker_not_heard_of_for_long_is_gone(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    later = timedelta(seconds=200)
    async with (
        producer(server.url),
        daemon_at(server.url, tmp_path / "jobs.sqlite") as daemon,
        AdminClient.connect(server.url) as client,
        worker(server.url, "single") as bench,
    ):
        running = await bench.jobs.single.create(Task(do="wait"))
        await bench.until_running(running)
        time_passes(daemon, later)

        async def heard_of() -> ExplanationView | None:
            told = await client.explain(running.address)
            return told if "lastSeen" in told.details else None

        told = await until(heard_of, "the worker's heartbeat is there")
        assert told.because is Because.WORKER_GONE
        await api.request(daemon.connection, "STREAM.PURGE.JOBS_WORK", {})
        assert (await client.explain(running.address)).because is Because.WORK_LOST
        waiting = await bench.jobs.single.create(Task())
        assert (await client.explain(waiting.address)).because is Because.NO_WORKER
        bench.go.set()
        await waiting.wait(timeout=20)


async def test_a_paused_queue_explains_its_jobs(lab: AdminLab) -> None:
    async with worker(lab.url, "work"):
        until_then = datetime.now(UTC) + timedelta(hours=1)
        pause = {"pause_until": until_then.isoformat().replace("+00:00", "Z")}
        connection = lab.stranger.connection
        await api.request(connection, "CONSUMER.PAUSE.JOBS_WORK.lab-work", pause)
        ref = await lab.jobs.work.create(Task())
        told = await lab.client.explain(ref.address)
    assert told.because is Because.QUEUE_PAUSED
    assert told.until is not None
    assert abs(told.until - until_then) < timedelta(seconds=5)


async def test_a_job_without_a_work_message_is_explained(lab: AdminLab) -> None:
    connection = lab.stranger.connection
    async with worker(lab.url, "work"):
        pass  # so that the queue has its consumer
    beat = WorkerHeartbeat(service="lab", job_type="work", instance="pod-7", at=utc_now())
    await Presence(connection, await detect_features(connection)).beat(beat)

    async def heard() -> bool:
        return any(each.workers for each in (await lab.client.list_services()).entries)

    await until(heard, "the heartbeat is there")
    lost = await lab.jobs.work.create(Task())
    await until_message_gone(connection, lost)
    assert (await lab.client.explain(lost.address)).because is Because.WORK_LOST


async def test_a_job_that_waits_for_its_key_says_who_holds_it(lab: AdminLab) -> None:
    async with helpdesk_worker(lab.url, "patient") as bench:
        holder = await bench.jobs.patient.create(Task(do="wait"))
        await bench.until_running(holder)
        waiting = await bench.jobs.patient.create(Task())

        async def explained() -> ExplanationView | None:
            told = await lab.client.explain(waiting.address)
            return told if told.because is Because.WAITING_FOR_KEY else None

        told = await until(explained, "it waits for its key")
        assert told.details["key"] == "tickets:acme"
        assert f"has been held by job {holder.id}" in told.sentence
        assert told.until is not None
        key = await lab.client.get_key("helpdesk", "patient", "tickets:acme")
        assert [each.job_id for each in key.active] == [holder.id]
        assert [each.job_id for each in key.queued] == [waiting.id]
        assert [each.key async for each in lab.client.busy_keys()] == ["tickets:acme"]
        asked = {"service": "helpdesk", "type": "patient", "key": "tickets:acme"}
        assert _lost_by(KeyView, await lab.stranger.ask("Jobs.GetKey", asked)) == []
        listed = await lab.stranger.ask("Jobs.ListKeys", {"limit": 5})
        assert _lost_by(Page[BusyKeyView], listed) == []
        with pytest.raises(Invalid, match="only a slot with an expired lease"):
            await lab.client.release_key("helpdesk", "patient", "tickets:acme", holder.id)
        with pytest.raises(NotFound, match="there is no key"):
            await lab.client.get_key("helpdesk", "patient", "tickets:unknown")
        bench.go.set()
        await waiting.wait(timeout=20)


async def until_message_gone(connection: Connection, ref: JobRef[Any]) -> None:
    filtered = {"filter": subjects.work(ref.address)}

    async def purged() -> bool:
        return bool((await api.request(connection, "STREAM.PURGE.JOBS_WORK", filtered))["purged"])

    await until(purged, "the work message is purged")


ANSWERS: list[tuple[str, dict[str, Any], type[BaseModel]]] = [
    ("Jobs.Health", {}, HealthView),
    ("Jobs.ListServices", {"limit": 10}, Page[ServiceView]),
    ("Jobs.List", {"limit": 1}, JobPage),
    ("Jobs.ListDLQ", {"limit": 10}, JobPage),
    ("Jobs.Get", {"id": ""}, OneJob),
    ("Jobs.Events", {"id": ""}, Page[LogEntry]),
    ("Jobs.Explain", {"id": ""}, ExplanationView),
    ("Jobs.Stats", {}, StatsView),
    ("Jobs.ListQueues", {"limit": 10}, Page[QueueView]),
    ("Jobs.Doctor", {}, Diagnosis),
    ("Jobs.Attention", {}, AttentionView),
]


@pytest.mark.parametrize(("method", "asked", "view"), ANSWERS)
async def test_the_client_knows_every_field_of_an_answer(
    lab: AdminLab, method: str, asked: dict[str, Any], view: type[BaseModel]
) -> None:
    ref = await lab.jobs.single.create(Task(do="always fail"))
    async with worker(lab.url, "single"):
        await until_state(ref, JobState.DEAD)
        await lab.client.replay(ref.id, reason="again")
        await until_state(ref, JobState.DEAD)
    await lab.client.get(ref.id, min_seq=await seq_of(lab, ref))
    said = await lab.stranger.ask(method, {**asked, "id": ref.id} if "id" in asked else asked)
    assert _lost_by(view, said) == []


def _lost_by(view: type[BaseModel], said: dict[str, Any]) -> list[str]:
    """What a view does not keep of an answer."""
    read = view.model_validate(said)
    return lost(said, read.model_dump(mode="json", by_alias=True, exclude_unset=True))


def lost(said: Any, kept: Any, path: str = "") -> list[str]:
    """The paths of what was said and not kept."""
    if isinstance(said, dict):
        gone = [f"{path}/{name}" for name in said if name not in kept]
        return gone + [
            each
            for name in said
            if name in kept
            for each in lost(said[name], kept[name], f"{path}/{name}")
        ]
    if isinstance(said, list):
        pairs = zip(said, kept, strict=True)
        return [each for n, (a, b) in enumerate(pairs) for each in lost(a, b, f"{path}/{n}")]
    return []


async def test_no_answer_comes_where_no_admin_runtime_runs(server: EmbeddedServer) -> None:
    async with producer(server.url), AdminClient.connect(server.url) as client:
        with pytest.raises(ServiceMissing, match="admin serve"):
            await client.health()


async def test_reads_are_asked_again_when_the_daemon_vanished_and_changes_are_not(
    server: EmbeddedServer,
) -> None:
    asked: list[str] = []

    async def vanish_first(request: Request) -> Reply:
        asked.append(subjects.rpc_method(request.subject))
        if asked.count(asked[-1]) == 1:
            await asyncio.Event().wait()
        return Reply(b'{"entries":[],"count":0,"offset":0,"limit":1}')

    async with (
        stranger_at(server.url) as vanishing,
        AdminClient.connect(server.url, timeout=0.5) as client,
    ):
        rpc_server = RpcServer(vanishing.connection, vanish_first, lambda _: Reply(b"{}"))
        await rpc_server.open("rpc.v1.Jobs.*", group="admin")
        assert (await client.list_jobs()).count == 0
        with pytest.raises(NotConfirmed):
            await client.cancel("01J")
    assert asked == ["Jobs.List", "Jobs.List", "Jobs.Cancel"]


@pytest.mark.parametrize("since", [None, 17, "yesterday", {}])
def test_a_refusal_of_another_runtime_keeps_its_message(since: Any) -> None:
    told = {"type": "ValidationError", "message": "no", "since": since, "by": 1, "raced": "x"}
    error = error_from(orjson.dumps(told))
    assert isinstance(error, Invalid)
    assert (error.message, error.by, error.raced) == ("no", None, False)
