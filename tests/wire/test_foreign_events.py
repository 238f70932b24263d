"""The original runtimes share the log: their events carry less, and must be understood."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from trellis_jobs.model import events as e
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job import Entry, fold
from trellis_jobs.model.notes import LogLevel, Progress
from trellis_jobs.model.states import JobState
from trellis_jobs.model.subjects import PresenceSubject
from trellis_jobs.wire import presence
from trellis_jobs.wire.events import decode

JOB = JobAddress("documents", "index-document", "01JZ8Q4X7M3T9V2K5B6C8D0EFG")
COMMON: dict[str, Any] = {
    "jobId": JOB.job_id,
    "context": {
        "requestId": "01JZ8Q4X7N8R2M4D6F1H3J5K7P",
        "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    },
    "service": JOB.service,
    "jobType": JOB.job_type,
    "timestamp": "2026-07-01T09:00:00.000Z",
}
BEGUN = {"tries": 0, "maxTries": 5, "payload": {"documentId": "d-17"}}
DEADLINE = {"deadline": "2026-07-01T09:05:00.000Z"}
LINE = {"timestamp": "2026-07-01T09:00:03.000Z", "level": "info", "message": "page 2 done"}
SLOT = {"key": "a:b", "keyHash": "f13b", "slotToken": "01JZ", "staleTakeoverCount": 0}

# eventType, state, previousState, and what else that kind carries.
EXAMPLES: list[tuple[str, str, str | None, dict[str, Any]]] = [
    ("scheduled", "scheduled", None, BEGUN | {"runAt": "2026-07-01T10:00:00.000Z"}),
    ("created", "pending", None, BEGUN | DEADLINE),
    ("created", "pending", None, BEGUN | {"queuePolicy": {"outcome": "accepted"}}),
    ("started", "active", "pending", {"tries": 1, "concurrency": SLOT}),
    ("retry", "retry", "active", {"tries": 1, "error": "upstream 503"}),
    ("progress", "active", "active", {"tries": 1, "progress": {"step": "ocr", "current": 2}}),
    ("logged", "active", "active", {"tries": 1, "logs": [LINE]}),
    ("completed", "completed", "active", {"tries": 1, "result": {"pages": 9}}),
    ("completed", "completed", "active", {"tries": 1}),
    ("failed", "failed", "active", {"tries": 1, "error": "bad file"}),
    ("cancelled", "cancelled", "pending", {"tries": 0}),
    ("cancelled", "cancelled", "pending", {"tries": 0, "error": "cancelled", "maxTries": 5}),
    ("expired", "expired", "active", {"tries": 1, "error": "job exceeded deadline"}),
    ("skipped", "skipped", "pending", {"tries": 0, "error": "replace-oldest"}),
    ("stale", "stale", "active", {"tries": 1, "error": "key lease expired"}),
    ("heartbeat", "active", "active", {"tries": 1, "concurrency": SLOT}),
    ("staleCompletionIgnored", "active", "active", {"tries": 1, "error": "lost key slot"}),
    ("staleCompletionIgnored", "stale", "active", {"tries": 1, "error": "lost key slot"}),
    ("retried", "pending", "failed", BEGUN | DEADLINE),
    ("dead", "dead", "retry", {"tries": 5, "error": "max deliveries exceeded: deliveries=5"}),
    ("dismissed", "dismissed", "dead", {"tries": 5, "error": "upstream 503"}),
]

# These say all about their job, so its status follows from them.
WITH_A_PAYLOAD = {EventKind.SCHEDULED, EventKind.CREATED, EventKind.RETRIED}


def body(kind: str, state: str, previous: str | None, more: dict[str, Any]) -> dict[str, Any]:
    was = {} if previous is None else {"previousState": previous}
    return COMMON | {"eventType": kind, "state": state} | was | more


def read(message: dict[str, Any], sequence: int = 7) -> Entry:
    entry = decode(json.dumps(message).encode(), expected=JOB, sequence=sequence)
    assert isinstance(entry, Entry), entry
    return entry


def example(kind: str) -> dict[str, Any]:
    return next(body(*fields) for fields in EXAMPLES if fields[0] == kind)


def test_there_is_a_foreign_example_of_every_kind() -> None:
    assert {kind for kind, *_ in EXAMPLES} == {kind.value for kind in EventKind}


@pytest.mark.parametrize("fields", EXAMPLES, ids=lambda fields: fields[0])
def test_an_event_of_the_original_runtimes_is_understood(
    fields: tuple[str, str, str | None, dict[str, Any]],
) -> None:
    entry = read(body(*fields))
    assert entry.event.kind.value == fields[0]
    assert entry.event.tries == fields[3]["tries"]
    if isinstance(entry.event, e.AttemptEvent):
        assert entry.event.attempt is None


@pytest.mark.parametrize("kind", sorted(set(EventKind) - WITH_A_PAYLOAD))
def test_a_foreign_event_does_not_say_where_it_leaves_its_job(kind: EventKind) -> None:
    assert read(example(kind.value)).status is None


def test_a_foreign_job_folds_from_its_creation_to_its_end() -> None:
    kinds = ("created", "started", "progress", "logged", "retry", "started", "completed")
    job = fold(read(example(kind), n) for n, kind in enumerate(kinds, start=1))
    assert job is not None
    assert (job.state, job.result, job.max_tries) == (JobState.COMPLETED, {"pages": 9}, 5)
    assert job.progress == Progress(step="ocr", current=2)
    assert [(line.level, line.message) for line in job.logs] == [(LogLevel.INFO, "page 2 done")]
    assert [error.message for error in job.errors] == ["upstream 503"]
    assert job.deadline == datetime(2026, 7, 1, 9, 5, tzinfo=UTC)


def test_a_plain_text_error_becomes_an_error_of_that_try() -> None:
    failed = read(example("failed")).event
    assert isinstance(failed, e.Failed)
    assert (failed.error.type, failed.error.message, failed.error.tries) == ("error", "bad file", 1)
    assert failed.error.at == failed.at


def test_a_failure_without_a_word_says_so() -> None:
    mute = read({k: v for k, v in example("failed").items() if k != "error"}).event
    assert isinstance(mute, e.Failed)
    assert mute.error.message == "no error was given"


@pytest.mark.parametrize("kind", ["created", "retried"])
def test_a_beginning_that_names_no_limit_has_one_try(kind: str) -> None:
    unlimited = {k: v for k, v in example(kind).items() if k != "maxTries"}
    entry = read(unlimited)
    assert entry.status is not None
    assert (entry.status.max_tries, entry.status.run) == (1, 7)


def test_a_beginning_is_pending_whatever_state_it_claims() -> None:
    entry = read(example("created") | {"state": "completed", "nextAttemptAt": "2030-01-01T00:00Z"})
    assert entry.status is not None
    assert entry.status.state is JobState.PENDING
    assert entry.status.next_attempt_at is None


@pytest.mark.parametrize(
    ("text", "microsecond"),
    [
        ("2026-07-01T09:00:00Z", 0),
        ("2026-07-01T09:00:00.1Z", 100_000),
        ("2026-07-01T09:00:00.000Z", 0),
        ("2026-07-01T09:00:00.123456789Z", 123_456),
        ("2026-07-01T11:00:00.5+02:00", 500_000),
        ("2026-07-01t09:00:00z", 0),
        ("2026-07-01T09:00:00-00:00", 0),
    ],
)
def test_a_time_is_an_instant_however_it_was_written(text: str, microsecond: int) -> None:
    at = read(example("created") | {"timestamp": text}).event.at
    assert at == datetime(2026, 7, 1, 9, 0, 0, microsecond, tzinfo=UTC)
    assert at.tzinfo is UTC


def test_a_foreign_worker_is_seen_too() -> None:
    beat = {
        "service": "documents",
        "jobType": "index-document",
        "instanceId": "pod-7",
        "timestamp": "2026-07-01T09:00:30.000Z",
    }
    subject = PresenceSubject("documents", "index-document", "pod-7")
    heard = presence.decode(json.dumps(beat).encode(), expected=subject)
    assert not isinstance(heard, str)
    assert (heard.concurrency, heard.version) == (None, None)
