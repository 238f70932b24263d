"""Whatever lies under a job's subject: it is an event, or a reason why not. Never an accident."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given as forall
from hypothesis import strategies as st

from tests.given import LEADING_TO, NOON, REPORT, completed, created, error, failed, notes, status
from tools.wire_vectors import BEAT, golden, heartbeat_message
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job import Entry
from trellis_jobs.model.notes import Progress
from trellis_jobs.model.states import JobState
from trellis_jobs.model.subjects import PresenceSubject
from trellis_jobs.wire import headers, presence
from trellis_jobs.wire.events import Undecodable, decode, encode

POD_7 = PresenceSubject(BEAT.service, BEAT.job_type, BEAT.instance)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)

# Without these an event can still be read, for foreign runtimes leave them out.
MAY_BE_ABSENT = {
    "maxTries",
    "previousState",
    "runSeq",
    "deadline",
    "nextAttemptAt",
    "attempt",
    "error",
    "errorDetail",
    "by",
    "lostAttempt",
    "progress",
    "logs",
    "result",
    "state",
    "traceId",
    "tracestate",
    "step",
    "message",
    "current",
    "total",
    "traceback",
}
# What these hold is the user's, or for readers only.
ANY_VALUE_DOES = {"payload", "result", "previousState", "traceId"}


def read(body: object, **more: Any) -> Entry | Undecodable:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return decode(data, expected=REPORT, sequence=7, **more)


def reason(body: object, **more: Any) -> str:
    refused = read(body, **more)
    assert isinstance(refused, Undecodable)
    assert refused.sequence == 7
    return refused.reason


def valid(kind: EventKind) -> dict[str, Any]:
    body: dict[str, Any] = golden(kind).message["body"]
    return body


def test_an_empty_slot_token_is_no_token() -> None:
    slot = {"key": "a:b", "keyHash": "f13b", "slotToken": ""}
    assert reason({**valid(EventKind.STARTED), "concurrency": slot}) == "slotToken cannot be empty"


@forall(st.binary(max_size=200))
def test_any_bytes_at_all_are_undecodable(data: bytes) -> None:
    assert isinstance(read(data), Undecodable)
    assert isinstance(presence.decode(data, expected=POD_7), str)


@forall(JSON)
def test_any_json_that_is_no_event_is_undecodable(body: object) -> None:
    data = json.dumps(body, allow_nan=True).encode()
    assert isinstance(read(data), Undecodable)
    assert isinstance(presence.decode(data, expected=POD_7), str)


@forall(st.sampled_from(EventKind), st.data())
def test_any_value_in_any_field_gives_an_event_or_a_reason(
    kind: EventKind, data: st.DataObject
) -> None:
    body = valid(kind)
    name = data.draw(st.sampled_from(sorted(body)))
    body[name] = data.draw(JSON)
    assert isinstance(read(json.dumps(body).encode()), Entry | Undecodable)


@forall(st.sampled_from(EventKind), st.data())
def test_an_event_cut_anywhere_is_undecodable(kind: EventKind, data: st.DataObject) -> None:
    whole = golden(kind).body
    cut = data.draw(st.integers(0, len(whole) - 1))
    assert isinstance(read(whole[:cut]), Undecodable)


def fields_of(body: dict[str, Any], *path: str) -> Iterator[tuple[str, ...]]:
    for name, value in body.items():
        yield (*path, name)
        if isinstance(value, dict) and name not in ANY_VALUE_DOES:
            yield from fields_of(value, *path, name)


# The status of the job follows from what these say, not from their fields of the status.
WITH_A_PAYLOAD = {EventKind.SCHEDULED, EventKind.CREATED, EventKind.RETRIED}
EVERY_FIELD = [(kind, path) for kind in EventKind for path in fields_of(valid(kind))]


def within(body: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    for name in path[:-1]:
        body = body[name]
    return body


@pytest.mark.parametrize(("kind", "path"), EVERY_FIELD, ids=str)
def test_a_field_that_is_missing_is_named(kind: EventKind, path: tuple[str, ...]) -> None:
    body = valid(kind)
    del within(body, path)[path[-1]]
    answer = read(body)
    inside_required = len(path) > 1 and path[0] in {"attempt", "errorDetail"}
    needed_for_status = path[-1] in {"state", "maxTries"} and kind not in WITH_A_PAYLOAD
    optional = path[-1] in MAY_BE_ABSENT and not needed_for_status
    if optional and not (inside_required and path[-1] != "traceback"):
        assert isinstance(answer, Entry), answer
    else:
        assert isinstance(answer, Undecodable)
        assert path[-1] in answer.reason


@pytest.mark.parametrize(("kind", "path"), EVERY_FIELD, ids=str)
@pytest.mark.parametrize("wrong", [True, 1.5, [[1]]], ids=["bool", "float", "list"])
def test_a_field_of_the_wrong_type_is_named(
    kind: EventKind, path: tuple[str, ...], wrong: object
) -> None:
    body = valid(kind)
    within(body, path)[path[-1]] = wrong
    answer = read(body)
    begins = kind in WITH_A_PAYLOAD
    ignored = path[-1] in ANY_VALUE_DOES or (path == ("state",) and begins)
    ignored |= path == ("error",) and "errorDetail" in body
    if ignored:
        assert isinstance(answer, Entry), answer
    else:
        assert isinstance(answer, Undecodable), answer
        assert path[-1] in answer.reason or "log entry" in answer.reason


@pytest.mark.parametrize("text", [b"NaN", b"Infinity", b"-Infinity"])
def test_what_json_does_not_have_is_not_read(text: bytes) -> None:
    body = golden(EventKind.COMPLETED).body.replace(b'"pages":4', b'"pages":' + text)
    assert "not JSON" in reason(body)


@pytest.mark.parametrize("depth", [10, 250, 1000, 1020, 5000])
def test_however_deep_it_is_nested_it_is_only_a_reason(depth: int) -> None:
    nested = b"[" * depth + b"]" * depth
    assert isinstance(read(b'{"eventType":' + nested + b"}"), Undecodable)


def test_a_body_about_another_job_than_its_subject_is_no_event() -> None:
    other = JobAddress(REPORT.service, REPORT.job_type, "another")
    refused = decode(golden(EventKind.CREATED).body, expected=other, sequence=7)
    assert isinstance(refused, Undecodable)
    assert "the subject" in refused.reason


@pytest.mark.parametrize("name", ["service", "jobType", "jobId"])
@pytest.mark.parametrize("value", ["a.b", "", "*", "a b"])
def test_a_name_that_is_no_token_is_no_event(name: str, value: str) -> None:
    assert "is not a valid subject token" in reason(valid(EventKind.CREATED) | {name: value})


COMMAND = "x 0\r\n\r\nPUB $JS.API.STREAM.DELETE.JOBS 0\r\n\r\nPUB y"


@pytest.mark.parametrize("value", [COMMAND, "x" * 5000, "a.b", "*", ">", "", " "])
@pytest.mark.parametrize("path", [("attempt", "instanceId"), ("attempt", "id")])
def test_what_would_become_part_of_a_subject_must_be_a_token(
    path: tuple[str, str], value: str
) -> None:
    body = valid(EventKind.STARTED)
    body[path[0]][path[1]] = value
    assert path[1] in reason(body)


@pytest.mark.parametrize("value", [COMMAND, "x" * 5000, "a.b", ""])
def test_the_hash_of_a_key_must_be_a_token(value: str) -> None:
    body = {**valid(EventKind.STARTED), "concurrency": {"key": "a", "keyHash": value}}
    assert "keyHash" in reason(body)


def test_an_event_of_a_service_called_workers_is_no_event() -> None:
    assert "reserved" in reason(valid(EventKind.CREATED) | {"service": "workers"})


@pytest.mark.parametrize("name", ["Nats-Stream", "Nats-Sequence", "Status"])
def test_an_answer_of_the_server_to_a_request_is_no_event(name: str) -> None:
    answered = {**golden(EventKind.CREATED).message["headers"], name: "JOBS"}
    assert "reply to a request" in reason(valid(EventKind.CREATED), headers=answered)
    assert headers.may_be_server_reply(headers.block(answered))


def test_an_answer_of_the_server_is_told_by_its_first_line_too() -> None:
    assert headers.may_be_server_reply(b"NATS/1.0 503\r\n\r\n")


def test_the_headers_that_the_server_adds_to_what_it_stores_do_no_harm() -> None:
    own = headers.of_event(created().context, "0123") | {headers.EXPECTED_SEQUENCE: "0"}
    assert isinstance(read(valid(EventKind.CREATED), headers=own), Entry)
    assert not headers.may_be_server_reply(headers.block(own))
    assert isinstance(read(valid(EventKind.CREATED), headers={}), Entry)
    assert not headers.may_be_server_reply(b"")
    assert isinstance(read(valid(EventKind.CREATED), headers=None), Entry)


@pytest.mark.parametrize(
    "text",
    [
        "2026-07-01T09:00:00",
        "2026-07-01",
        "yesterday",
        "",
        "1782896400",
        "2026-13-01T09:00:00Z",
        "2026-07-01T25:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
    ],
)
@pytest.mark.parametrize("name", ["timestamp", "deadline"])
def test_a_time_that_is_no_instant_is_refused(name: str, text: str) -> None:
    assert name in reason(valid(EventKind.CREATED) | {name: text})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"eventType": "invented"}, "invented"),
        ({"state": "invented"}, "invented"),
        ({"state": "completed"}, "started leads to active, not to completed"),
        ({"tries": -1}, "tries"),
        ({"tries": 2**70}, "tries"),
        ({"maxTries": 0}, "maxTries"),
        ({"runSeq": 0}, "runSeq"),
        (
            {"logs": [{"level": "shout", "message": "x", "timestamp": "2026-07-01T09:00:00Z"}]},
            "shout",
        ),
        ({"logs": ["text"]}, "log entry"),
        ({"context": {"requestId": "r", "traceparent": "00-0-0-00"}}, "traceparent"),
        ({"attempt": {"id": "a", "instanceId": "i", "work": "w", "delivery": 0}}, "delivery"),
    ],
)
def test_a_value_out_of_its_bounds_is_named(change: dict[str, Any], named: str) -> None:
    assert named in reason(valid(EventKind.STARTED) | change)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (EventKind.CREATED, {"maxTries": 1, "tries": 0}),
        (EventKind.STARTED, {"maxTries": 1, "runSeq": 1, "tries": 1}),
    ],
)
def test_the_smallest_values_are_within_their_bounds(
    kind: EventKind, change: dict[str, Any]
) -> None:
    assert isinstance(read(valid(kind) | change), Entry)


@pytest.mark.parametrize("name", ["service", "jobType", "instanceId", "timestamp"])
def test_a_heartbeat_without_one_of_its_fields_is_none(name: str) -> None:
    body = heartbeat_message()["body"]
    del body[name]
    assert name in str(presence.decode(json.dumps(body).encode(), expected=POD_7))


@pytest.mark.parametrize("name", ["service", "jobType", "instanceId"])
def test_a_heartbeat_under_the_subject_of_another_worker_is_none(name: str) -> None:
    body = heartbeat_message()["body"] | {name: "another"}
    assert "the subject" in str(presence.decode(json.dumps(body).encode(), expected=POD_7))


FILTERS = "trellis.jobs.*.*.*.created\ftrellis.jobs.*.*.*.retried"
DESTINATIONS = "trellis.work.$1.$2.$3\ftrellis.work.$1.$2.$3"
ORIGINAL = "trellis.jobs.documents.render-report.01JQ.created"


@pytest.mark.parametrize(
    "value",
    [
        f"JOBS 17 {FILTERS} {DESTINATIONS}",
        f"JOBS 17 {FILTERS} {DESTINATIONS} {ORIGINAL}",
        f"JOBS 17 {FILTERS} {DESTINATIONS} {ORIGINAL} Ab12Cd34",
        f"JOBS:C=x7Yz 17 {FILTERS} {DESTINATIONS} {ORIGINAL} Ab12Cd34",
        "JOBS 17",
    ],
    ids=["2.10", "2.12", "2.15", "durable", "short"],
)
def test_every_server_version_tells_which_event_a_work_message_stems_from(value: str) -> None:
    assert headers.source_sequence({headers.STREAM_SOURCE: value}) == 17


def test_the_largest_sequence_there_can_be_is_read() -> None:
    assert headers.source_sequence({headers.RUN_SEQUENCE: str(2**64 - 1)}) == 2**64 - 1


def test_a_message_that_was_put_back_names_its_run_itself() -> None:
    put_back = {headers.RUN_SEQUENCE: "17", headers.STREAM_SOURCE: "JOBS 99 a b"}
    assert headers.source_sequence(put_back) == 17


@pytest.mark.parametrize(
    "value", ["", "JOBS", "JOBS x", "JOBS -1", "JOBS ٣", "JOBS " + "9" * 21, "JOBS " + "9" * 5000]
)
def test_a_source_header_that_makes_no_sense_names_no_event(value: str) -> None:
    assert headers.source_sequence({headers.STREAM_SOURCE: value}) is None
    assert headers.source_sequence({headers.RUN_SEQUENCE: value}) is None
    assert headers.source_sequence({}) is None


@forall(st.text(max_size=40))
def test_any_text_can_stand_in_a_source_header(text: str) -> None:
    found = headers.source_sequence({headers.STREAM_SOURCE: text, headers.RUN_SEQUENCE: text})
    assert found is None or found >= 0


HALF_A_PAIR = "caf\udce9.pdf"


def test_a_message_that_is_not_utf8_costs_one_character_not_the_event() -> None:
    event = failed(
        error=error(message=HALF_A_PAIR, traceback=HALF_A_PAIR),
        notes=notes(HALF_A_PAIR, progress=Progress(message=HALF_A_PAIR)),
    )
    data = encode(event, status(*LEADING_TO[JobState.FAILED]), JobState.ACTIVE)
    entry = read(data)
    assert isinstance(entry, Entry)
    assert entry.event == failed(
        error=error(message="caf?.pdf", traceback="caf?.pdf"),
        notes=notes("caf?.pdf", progress=Progress(message="caf?.pdf")),
    )


def test_a_value_that_no_json_can_hold_is_a_mistake_of_the_writer() -> None:
    with pytest.raises(TypeError):
        encode(completed(result=object()), status(*LEADING_TO[JobState.COMPLETED]), JobState.ACTIVE)


def test_times_are_written_in_utc_whatever_zone_they_came_in() -> None:
    data = encode(created(deadline=NOON), status(deadline=NOON), None)
    assert b'"deadline":"2026-03-28T12:00:00Z"' in data
