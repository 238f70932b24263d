"""The golden messages stay as they are, and are read back as what they were written from."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given as forall

from tests.given import REPORT, histories
from tools.wire_vectors import BEAT, BORROWED, CONTRACT, FOLDER, golden, golden_snooze, texts
from trellis_jobs.contract.manifest import to_manifest
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.job import Applied, Entry, Job, reduce
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.reducer import Illegal, advance
from trellis_jobs.wire import events, headers, presence

SEQUENCE = 23


def stored(name: str) -> dict[str, Any]:
    message: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return message


def test_the_golden_files_are_current_and_complete() -> None:
    found = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    assert found.keys() >= BORROWED
    ours = {name: text for name, text in found.items() if name not in BORROWED}
    assert ours == texts(), "if the change is meant, run: python -m tools.wire_vectors"


@pytest.mark.parametrize("kind", EventKind)
def test_a_golden_event_is_read_back_as_the_event_and_standing_it_was_written_from(
    kind: EventKind,
) -> None:
    message, meant = stored(kind.value), golden(kind)
    entry = events.decode(
        json.dumps(message["body"]).encode(),
        expected=REPORT,
        sequence=SEQUENCE,
        headers=message["headers"],
    )
    assert entry == Entry(SEQUENCE, meant.event, meant.status.recorded_at(SEQUENCE))


def test_a_golden_snooze_is_read_back_with_its_number() -> None:
    message, meant = stored("retry-snooze"), golden_snooze()
    body = json.dumps(message["body"]).encode()
    entry = events.decode(body, expected=REPORT, sequence=SEQUENCE, headers=message["headers"])
    assert entry == Entry(SEQUENCE, meant.event, meant.status)
    assert message["body"]["snoozes"] == meant.status.snoozes == 2
    assert message["body"]["tries"] == 0


@pytest.mark.parametrize("kind", EventKind)
def test_an_event_of_a_job_that_never_snoozed_has_no_number_of_snoozes(kind: EventKind) -> None:
    assert "snoozes" not in stored(kind.value)["body"]


@pytest.mark.parametrize("kind", EventKind)
def test_a_golden_event_is_written_as_it_always_was(kind: EventKind) -> None:
    assert json.loads(golden(kind).body) == stored(kind.value)["body"]


@pytest.mark.parametrize("kind", EventKind)
def test_a_golden_subject_names_the_job_and_the_kind_of_its_body(kind: EventKind) -> None:
    subject = subjects.parse(stored(kind.value)["subject"])
    assert subject == subjects.LifecycleSubject(REPORT, kind)


@pytest.mark.parametrize("kind", EventKind)
def test_the_headers_of_a_golden_event_say_what_its_context_says(kind: EventKind) -> None:
    message = stored(kind.value)
    said, context = message["headers"], message["body"]["context"]
    assert said["request-id"] == context["requestId"]
    assert said["traceparent"] == context["traceparent"]
    assert said.get("tracestate") == context.get("tracestate")
    assert len(said[headers.EVENT_ID]) == 24


@pytest.mark.parametrize("kind", EventKind)
def test_what_is_not_there_is_left_out_never_null(kind: EventKind) -> None:
    assert None not in stored(kind.value)["body"].values()


@pytest.mark.parametrize("kind", EventKind)
def test_the_original_runtimes_find_every_field_they_insist_on(kind: EventKind) -> None:
    body = stored(kind.value)["body"]
    always = {"jobId", "context", "service", "jobType", "eventType", "state", "tries", "timestamp"}
    assert always <= body.keys()
    assert {"requestId", "traceId", "traceparent"} <= body["context"].keys()
    assert ("previousState" in body) == (kind not in {EventKind.SCHEDULED, EventKind.CREATED})
    if kind in {EventKind.CREATED, EventKind.RETRIED}:
        assert {"payload", "maxTries"} <= body.keys()


def test_a_golden_heartbeat_is_read_back_as_the_beat_it_was_written_from() -> None:
    message = stored("worker-heartbeat")
    subject = subjects.parse(message["subject"])
    assert isinstance(subject, subjects.PresenceSubject)
    assert presence.decode(json.dumps(message["body"]).encode(), expected=subject) == BEAT
    assert json.loads(presence.encode(BEAT)) == message["body"]


def test_the_golden_manifest_is_what_its_declarations_stand_for() -> None:
    assert stored("service-manifest") == to_manifest(CONTRACT)


@forall(histories(max_size=24))
def test_the_newest_event_alone_says_where_the_whole_history_has_led(
    history: list[e.Event],
) -> None:
    """As the log does it: each legal event is written with the standing it leads to."""
    head: Head | None = None
    job: Job | None = None
    for sequence, event in enumerate(history, start=5):
        status = advance(head.status if head else None, event)
        if isinstance(status, Illegal):
            continue
        data = events.encode(event, status, head.status.state if head else None)
        entry = events.decode(data, expected=REPORT, sequence=sequence)
        assert isinstance(entry, Entry)
        verdict = reduce(job, entry)
        assert isinstance(verdict, Applied)
        job, head = verdict.job, Head(sequence, status.recorded_at(sequence))
        assert entry.status == job.status == head.status
