"""The log as rows: the same rows for the same log, in whatever portions it was taken in."""

from __future__ import annotations

import asyncio
import random
import tempfile
from pathlib import Path
from typing import Any

import orjson
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from jobs_admin.api.views.jobs import JobView
from jobs_admin.projection.batch import read
from jobs_admin.projection.ingest import Ingest
from jobs_admin.projection.rows import COLUMNS
from jobs_admin.projection.store import Projection
from jobs_admin.projection.writer import Writer
from tests.admin.made_log import BILLING, Scribe, logs, of, rows_of, split
from tests.given import (
    FIRST,
    NOON,
    ONE_OF_EACH,
    REPORT,
    SECOND,
    after,
    cancelled,
    completed,
    created,
    dismissed,
    error,
    failed,
    histories,
    log,
    logged,
    notes,
    retried,
    started,
)
from trellis_jobs.jetstream.log.feed import LogMessage
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.model.concurrency import Concurrency, QueuePolicy
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job import LOGS_KEPT, Job, LastSnooze, Run, fold
from trellis_jobs.model.notes import Progress
from trellis_jobs.model.try_limits import TryLimits
from trellis_jobs.model.values import replace
from trellis_jobs.wire import jobs as wire
from trellis_jobs.wire.fields import dumps

A_FEW_FILES = settings(max_examples=40)


def project(path: Path, batches: list[list[LogMessage]], *, restarted: bool = False) -> None:
    """`restarted`: as if by another process for each batch."""

    async def apply() -> None:
        for part in [[batch] for batch in batches] if restarted else [batches]:
            async with Projection.open(path) as projection:
                ingest = Ingest(projection, await projection.do(Writer.position))
                for batch in part:
                    await ingest.apply(batch)

    asyncio.run(apply())


def without_logs(job: Job) -> Job:
    runs = [replace(run, logs=()) for run in (*job.earlier_runs, job.run)]
    return replace(job, run=runs[-1], earlier_runs=tuple(runs[:-1]))


@forall(histories(max_size=30))
def test_a_job_is_the_same_after_a_trip_through_json(history: list[e.Event]) -> None:
    job = fold(log(*history))
    if job is not None:
        assert wire.from_json(orjson.loads(dumps(wire.to_json(job)))) == without_logs(job)


def test_the_view_of_a_job_has_every_field_that_is_stored() -> None:
    """Lists send the stored JSON as it is; the view says what is in it."""
    run = Run(
        payload={"page": 1, "token": None},
        began_at=NOON,
        version=2,
        secrets=("/token",),
        started_at=after(1),
        ended_at=after(2),
        result={"pages": 3},
        result_secrets=("/key",),
        errors=(error(traceback="in line 1"),),
        progress=Progress(step="print", message="page 1", current=1, total=3),
        ended_because="not needed",
        begun_by="ann",
        ended_by="bob",
        instance=FIRST.instance,
        app_version="1.4.2",
        try_limits=TryLimits(after(7) - NOON, after(8) - NOON),
        concurrency=Concurrency(
            key="acme:1",
            key_hash="0" * 64,
            slot_token=FIRST.id,
            instance=FIRST.instance,
            heartbeat_at=after(1),
            lease_expires_at=after(31),
            stale_takeovers=1,
        ),
        run_at=after(1),
        schedule="nightly",
        snooze=LastSnooze("the bank is closed", after(5)),
        queue_policy=QueuePolicy(
            outcome="replaced", reason="replace-oldest", existing_job_id="a", replaced_job_id="b"
        ),
    )
    known = fold(log(created()))
    assert known is not None
    whole = replace(
        known,
        created_by="ann",
        created_reason="a complaint",
        run=run,
        earlier_runs=(run,),
        context=replace(known.context, tracestate="vendor=1"),
        status=replace(
            known.status, deadline=after(60), owner=FIRST, next_attempt_at=after(5), snoozes=2
        ),
    )
    document = orjson.loads(dumps(wire.to_json(whole)))
    view = JobView.model_validate(document)
    assert orjson.loads(view.model_dump_json(by_alias=True, exclude_unset=True)) == document
    sent_with_it = {"logs", "firstSeq", "lastSeq", "omitted"}
    fields = {field.alias for field in JobView.model_fields.values()}
    assert document.keys() == fields - sent_with_it


@A_FEW_FILES
@forall(logs(), st.lists(st.integers(0, 1000), max_size=6))
def test_rows_do_not_depend_on_how_the_log_was_portioned(
    messages: list[LogMessage], cuts: list[int]
) -> None:
    if not messages:
        return
    with tempfile.TemporaryDirectory() as folder:
        whole, parts, restarted = (Path(folder) / name for name in ("whole", "parts", "restarted"))
        project(whole, [messages])
        project(parts, split(messages, cuts))
        project(restarted, split(messages, cuts), restarted=True)
        expected = rows_of(whole)
        assert rows_of(parts) == expected
        assert rows_of(restarted) == expected


@A_FEW_FILES
@forall(logs())
def test_a_row_is_what_the_reducer_makes_of_the_jobs_history(messages: list[LogMessage]) -> None:
    if not messages:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs"
        project(path, [messages])
        rows = rows_of(path)
    assert {(row[1], row[2], row[3]) for row in rows["jobs_projection"]} == {
        (job.address.service, job.address.job_type, job.id) for job in folded(messages)
    }
    documents = {orjson.loads(row[-1])["id"]: row[-1] for row in rows["jobs_projection"]}
    for job in folded(messages):
        assert wire.from_json(orjson.loads(documents[job.id])) == without_logs(job)


def folded(messages: list[LogMessage]) -> list[Job]:
    histories = read(messages).events.values()
    jobs = [fold(entry for _, entry in history) for history in histories]
    return [job for job in jobs if job is not None]


def test_events_that_do_not_count_are_kept_with_the_reason(tmp_path: Path) -> None:
    lost = completed(attempt=SECOND)
    project(tmp_path / "jobs", [Scribe().write(created(), completed(), started(), lost).messages])
    rows = rows_of(tmp_path / "jobs")
    assert [(row[0], row[4], row[5]) for row in rows["ignored_events"]] == [
        (2, "completed", "completed is not legal from pending"),
        (4, "completed", "completed comes from an attempt that does not own the job"),
    ]
    [job] = rows["jobs_projection"]
    assert (job[4], job[COLUMNS.index("last_sequence")]) == ("active", 4)


def test_what_is_no_event_is_kept_aside_and_stops_nothing(tmp_path: Path) -> None:
    somewhere = subjects.lifecycle(REPORT, e.EventKind.STARTED)
    scribe = Scribe().write(created()).add(somewhere, b"\xff rubbish " * 100)
    scribe.add(somewhere, b"{}").add("trellis.jobs.of.none", b"[]")
    scribe.add(somewhere, b"{}", {"Nats-Stream": "JOBS", "Nats-Sequence": "1"})
    project(tmp_path / "jobs", [scribe.write(started()).messages])
    rows = rows_of(tmp_path / "jobs")
    aside = rows["undecodable_messages"]
    assert [(row[0], row[1]) for row in aside] == [
        (2, somewhere),
        (3, somewhere),
        (4, "trellis.jobs.of.none"),
        (5, somewhere),
    ]
    assert "not JSON" in aside[0][2]
    assert aside[0][3] == len(b"\xff rubbish " * 100)
    assert "the server's reply" in aside[3][2]
    assert rows["jobs_projection"][0][4] == "active"


def test_workers_not_heard_of_for_a_day_are_forgotten(tmp_path: Path) -> None:
    """By the heartbeats themselves: however the log was portioned, the rows are the same."""
    scribe = Scribe().beat("pod-1").beat("pod-2").later(23 * 3600).beat("pod-3").beat("pod-2")
    scribe.later(2 * 3600).beat("pod-4")
    for name, portions in (
        ("whole", [scribe.messages]),
        ("parts", [[message] for message in scribe.messages]),
    ):
        project(tmp_path / name, portions)
        workers = [row[2] for row in rows_of(tmp_path / name)["worker_presence_projection"]]
        assert sorted(workers) == ["pod-2", "pod-3", "pod-4"]


def test_jobs_are_counted_as_they_move(tmp_path: Path) -> None:
    scribe = Scribe().write(created(), started(), failed(), retried())
    scribe.write(*of(BILLING, created(), started(), completed()))
    project(tmp_path / "jobs", [[message] for message in scribe.messages])
    assert rows_of(tmp_path / "jobs")["job_counts"] == [
        ("billing", "send-invoice", "completed", 1),
        ("documents", "render-report", "pending", 1),
    ]


def test_a_key_is_counted_as_long_as_one_of_its_jobs_is_not_over(tmp_path: Path) -> None:
    key, other = (Concurrency(key=name, key_hash=name * 64) for name in "ab")
    scribe = Scribe().write(created(concurrency=key), *of(BILLING, created(concurrency=other)))
    scribe.write(*of(replace(REPORT, job_id="second"), created(concurrency=key)))
    scribe.write(started())
    project(tmp_path / "running", [[message] for message in scribe.messages])
    assert rows_of(tmp_path / "running")["key_counts"] == [
        ("billing", "send-invoice", "b" * 64, "b", 1, 0, 1),
        ("documents", "render-report", "a" * 64, "a", 2, 1, 1),
    ]
    scribe.write(completed(), *of(BILLING, started(), completed()))
    project(tmp_path / "over", [[message] for message in scribe.messages])
    assert rows_of(tmp_path / "over")["key_counts"] == [
        ("documents", "render-report", "a" * 64, "a", 1, 0, 1),
    ]


def test_of_a_talkative_job_only_the_newest_lines_stay(tmp_path: Path) -> None:
    pages = [notes(*(f"{page}/{line}" for line in range(300))) for page in range(5)]
    scribe = Scribe().write(created(), started(), *(logged(notes=page) for page in pages))
    project(tmp_path / "jobs", [[message] for message in scribe.messages])
    lines = sorted(rows_of(tmp_path / "jobs")["job_logs"], key=lambda row: int(row[1]))
    assert [line[5] for line in lines] == [line.message for page in pages for line in page.lines][
        -LOGS_KEPT:
    ]


def test_a_fresh_run_is_found_by_its_own_payload_and_by_the_old_one(tmp_path: Path) -> None:
    scribe = Scribe().write(created(), started(), failed(), retried(payload={"doc": "d-2"}))
    project(tmp_path / "jobs", [scribe.messages])
    payloads, origins = 2, 2
    assert len(rows_of(tmp_path / "jobs")["job_values"]) == payloads + origins


def test_only_events_that_counted_are_actions_of_operators(tmp_path: Path) -> None:
    by = {"by": "ann", "request": "r-1"}
    scribe = Scribe().write(created(), cancelled(**by), dismissed(**by))
    project(tmp_path / "jobs", [scribe.messages])
    assert [row[2] for row in rows_of(tmp_path / "jobs")["operator_actions"]] == ["cancel"]


def test_a_payload_nested_deeper_than_can_be_shown_stops_nothing(tmp_path: Path) -> None:
    deep = {"eventType": "created", "payload": 0}
    body = orjson.loads(Scribe().write(created()).messages[0].data)
    for depth in (240, 250, 253, 300, 900):
        data = orjson.dumps(body | deep).replace(
            b'"payload":0', b'"payload":' + b"[" * depth + b"]" * depth
        )
        scribe = Scribe().add(subjects.lifecycle(REPORT, e.EventKind.CREATED), data)
        project(tmp_path / f"{depth}", [scribe.write(*of(BILLING, created())).messages])
        rows = rows_of(tmp_path / f"{depth}")
        assert {row[1] for row in rows["jobs_projection"]} >= {"billing"}
        assert len(rows["jobs_projection"]) + len(rows["undecodable_messages"]) == 2


def test_ten_thousand_messages_from_strangers_stop_nothing(tmp_path: Path) -> None:
    chance = random.Random(4)  # noqa: S311 - the same at each run
    scribe = Scribe()
    examples = Scribe().write(*ONE_OF_EACH).beat(concurrency=4, version="1").messages
    for n in range(10_000):
        example = chance.choice(examples)
        scribe.add(strange_subject(chance, example.subject), strange_data(chance, example.data))
        if n % 1000 == 0:
            scribe.write(created(job=JobAddress("documents", "render-report", f"job-{n}")))
    batches = [scribe.messages[n : n + 500] for n in range(0, len(scribe.messages), 500)]
    project(tmp_path / "jobs", batches)
    rows = rows_of(tmp_path / "jobs")
    assert dict(rows["projection_metadata"])["position"] == str(len(scribe.messages))
    assert {f"job-{n}" for n in range(0, 10_000, 1000)} <= {
        row[3] for row in rows["jobs_projection"]
    }
    assert len(rows["undecodable_messages"]) > 1000
    assert rows["ignored_events"]


STRANGE: tuple[Any, ...] = (
    None, True, -1, 0, 1e300, 2**63, 2**64 - 1, 2**31, "", "x" * 5000, "\x00", "🦀", [], {},
    [[[[]]]], {"a": {"b": {"c": {"d": {"e": 1}}}}}, "9999-12-31T23:59:59.999999-12:00",
    "0001-01-01T00:00:00+14:00", "2026-03-28T12:00:00Z", "'; DROP TABLE jobs_projection; --",
    FIRST.id, "pending", "active", "started",
)  # fmt: skip


def strange_data(chance: random.Random, data: bytes) -> bytes:
    match chance.randrange(4):
        case 0:
            place = chance.randrange(len(data))
            return data[:place] + chance.randbytes(chance.randrange(4)) + data[place + 1 :]
        case 1:
            return data[: chance.randrange(len(data))]
        case _:
            body = orjson.loads(data)
            for _ in range(chance.randrange(1, 4)):
                inner = body
                name = chance.choice(list(inner))
                while isinstance(inner[name], dict) and inner[name] and chance.random() < 0.5:
                    inner = inner[name]
                    name = chance.choice(list(inner))
                inner[name] = chance.choice(STRANGE)
            return orjson.dumps(body)


def strange_subject(chance: random.Random, subject: str) -> str:
    if chance.random() < 0.8:
        return subject
    tokens = subject.split(".")
    tokens[chance.randrange(len(tokens))] = chance.choice(["workers", "x", "*", ">", "a b", "é"])
    return ".".join(tokens)
