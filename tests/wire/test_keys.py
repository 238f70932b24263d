"""Key states ⇄ JSON: what others wrote is kept, and what is no key state is never taken for one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given as forall
from hypothesis import strategies as st

from tests.given import CONTEXT, KEY, after, key_state, slot, waiting
from tools.wire_vectors import FOLDER, KEY_STATE, key_state_message
from trellis_jobs.model.keys.backlog import WhenFull, admit
from trellis_jobs.model.keys.slots import enqueue, renew
from trellis_jobs.model.keys.state import KeyAddress, KeyState
from trellis_jobs.model.values import replace
from trellis_jobs.wire.keys import Malformed, decode, encode

Path = tuple[str | int, ...]

MAY_BE_ABSENT = {
    "maxQueuedPerKey",
    "staleTakeoverCount",
    "updatedAt",
    "context",
    "tracestate",
    "traceId",
    "coalescedBySubmissionId",
    "submissionId",
}
ANY_VALUE_DOES = {"traceId", "coalescedBySubmissionId", "submissionId"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
TIMES = st.integers(-(10**9), 10**9).map(lambda micros: after(micros / 1000))
TEXTS = st.text(max_size=5)
EXTRAS = st.dictionaries(st.sampled_from(["x", "submissionId"]), TEXTS | st.lists(st.booleans()))
CONTEXTS = st.sampled_from([None, CONTEXT, replace(CONTEXT, tracestate="vendor=1")])
TOKENS = st.text("ab-_0Z", min_size=1, max_size=5)
SLOTS = st.builds(
    lambda job, token, tries, *rest: slot(
        job, token, tries=tries, since=rest[0], started_at=rest[1], context=rest[2], unknown=rest[3]
    ),
    TOKENS,
    st.text(min_size=1, max_size=5),
    st.integers(0, 2**53),
    st.integers(0, 2**53),
    TIMES,
    CONTEXTS,
    EXTRAS,
)
WAITING = st.builds(
    lambda job, at, due, context, extras: waiting(
        job, created_at=at, not_before=due, context=context, unknown=extras
    ),
    TOKENS,
    TIMES,
    st.none() | TIMES,
    CONTEXTS,
    EXTRAS,
)


def body() -> dict[str, Any]:
    found: dict[str, Any] = key_state_message()["body"]
    return found


def read(value: object) -> KeyState | Malformed:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return decode(data, expected=KEY)


def reason(value: object) -> str:
    refused = read(value)
    assert isinstance(refused, Malformed), refused
    return refused.reason


def rewritten(value: dict[str, Any]) -> dict[str, Any]:
    state = read(value)
    assert isinstance(state, KeyState), state
    again: dict[str, Any] = json.loads(encode(state))
    return again


def every_field(value: object, *path: str | int) -> Iterator[Path]:
    if isinstance(value, dict) and not (path and path[-1] in ANY_VALUE_DOES):
        for name, member in value.items():
            yield (*path, name)
            yield from every_field(member, *path, name)
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from every_field(member, *path, index)


EVERY_FIELD = list(every_field(body()))


def within(value: Any, path: Path) -> Any:
    for step in path[:-1]:
        value = value[step]
    return value


def test_the_golden_state_is_read_back_as_what_it_was_written_from() -> None:
    stored = json.loads((FOLDER / "key-state.json").read_text(encoding="utf-8"))
    assert read(stored["body"]) == KEY_STATE
    assert json.loads(encode(KEY_STATE)) == stored["body"]
    assert stored["subject"] == f"$KV.JOBS_KEYS.{KEY.service}.{KEY.job_type}.{KEY.hash}"


def test_the_original_runtimes_find_every_field_they_insist_on() -> None:
    value = body()
    [running] = value["active"]
    context = {"requestId", "traceId", "traceparent"}
    assert {"version", "service", "jobType", "key", "keyHash", "maxActive"} <= value.keys()
    times = {"startedAt", "heartbeatAt", "leaseExpiresAt"}
    assert {"jobId", "slotToken", "instanceId", "tries", "context"} | times <= running.keys()
    assert context <= running["context"].keys()
    for queued in value["queued"]:
        assert {"jobId", "createdAt", "requestId", "context"} <= queued.keys()
        assert context <= queued["context"].keys()


@forall(st.lists(SLOTS, max_size=3), st.lists(WAITING, max_size=3), st.none() | TIMES, EXTRAS)
def test_any_state_is_read_back_as_it_was(
    active: list[Any], queued: list[Any], updated: Any, extras: dict[str, Any]
) -> None:
    state = key_state(
        active=tuple(active), queued=tuple(queued), updated_at=updated, unknown=extras
    )
    assert decode(encode(state), expected=KEY) == state


def test_nothing_is_written_as_null() -> None:
    written = encode(key_state(active=(slot(context=None),), queued=(waiting(context=None),)))
    assert b"null" not in written
    assert b"updatedAt" not in written


def test_a_job_in_backoff_says_until_when_and_the_others_say_nothing() -> None:
    resting = waiting("a", not_before=after(90))
    first, second = json.loads(encode(key_state(queued=(resting, waiting("b")))))["queued"]
    assert first["notBefore"] == "2026-03-28T12:01:30Z"
    assert "notBefore" not in second


def test_a_slot_says_how_far_its_holder_knew_the_log() -> None:
    known, foreign = slot("a", "A", since=7), slot("b", "B", since=0)
    first, second = json.loads(encode(key_state(active=(known, foreign))))["active"]
    assert first["logSequence"] == 7
    assert "logSequence" not in second


@pytest.mark.parametrize("wrong", [-1, "7", 1.5, None], ids=repr)
def test_a_slot_that_knew_an_impossible_log_is_refused(wrong: object) -> None:
    value = body()
    value["active"][0]["logSequence"] = wrong
    assert "logSequence" in reason(value)


def test_what_other_runtimes_have_added_is_still_there_after_our_moves() -> None:
    value = body()
    extra = {"theirs": [1, {"deep": None}], "aNumber": 1.5}
    value |= extra
    value["active"][0] |= extra
    value["active"][0]["context"] |= extra
    value["queued"][0] |= extra
    value["queued"][0]["context"] |= extra
    state = read(value)
    assert isinstance(state, KeyState)
    assert json.loads(encode(state)) == value
    token = state.active[0].token
    moved = renew(state, token, at=state.active[0].heartbeat_at, ttl=after(60) - after(0)).state
    moved = enqueue(moved, waiting("one-more", created_at=after(99)))
    again = json.loads(encode(moved))
    assert again["active"] == value["active"]
    assert again["queued"][:2] == value["queued"]
    assert extra.items() <= again.items()


def test_a_state_that_says_only_what_it_must_is_read() -> None:
    least = {name: value for name, value in body().items() if name not in MAY_BE_ABSENT}
    state = read(least | {"active": [], "queued": []})
    assert state == key_state(max_queued=0)


def test_a_context_that_is_null_is_no_context() -> None:
    value = body()
    value["active"][0]["context"] = None
    state = read(value)
    assert isinstance(state, KeyState)
    assert state.active[0].context is None
    assert "context" not in json.loads(encode(state))["active"][0]


@pytest.mark.parametrize("path", EVERY_FIELD, ids=str)
def test_a_field_that_is_missing_is_named(path: Path) -> None:
    value = body()
    del within(value, path)[path[-1]]
    if path[-1] in MAY_BE_ABSENT:
        assert isinstance(read(value), KeyState)
    else:
        assert str(path[-1]) in reason(value)


@pytest.mark.parametrize("path", EVERY_FIELD, ids=str)
@pytest.mark.parametrize("wrong", [True, 1.5, [[1]]], ids=["bool", "float", "list"])
def test_a_field_of_the_wrong_type_is_named(path: Path, wrong: object) -> None:
    value = body()
    within(value, path)[path[-1]] = wrong
    if path[-1] in ANY_VALUE_DOES:
        assert isinstance(read(value), KeyState)
    else:
        assert str(path[-1]) in reason(value)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"version": 2}, "version 2 is not supported, only 1"),
        ({"version": 0}, "version 0"),
        ({"maxActive": 0}, "maxActive must be at least 1"),
        ({"maxQueuedPerKey": -1}, "maxQueuedPerKey must be at least 0"),
        ({"staleTakeoverCount": -1}, "staleTakeoverCount must be at least 0"),
        ({"updatedAt": "yesterday"}, "updatedAt must be an RFC 3339 time"),
        ({"active": [None]}, "active must be a list of objects"),
        ({"queued": ["a"]}, "queued must be a list of objects"),
        ({"active": {}}, "active must be list"),
    ],
    ids=str,
)
def test_a_value_out_of_its_bounds_is_named(change: dict[str, Any], named: str) -> None:
    assert named in reason(body() | change)


def test_a_slot_with_an_empty_token_is_malformed() -> None:
    """Any attempt without a token of its own could renew or release it."""
    value = body()
    value["active"][0]["slotToken"] = ""
    state = read(value)
    assert isinstance(state, Malformed)
    assert state.reason == "slotToken cannot be empty"
    with pytest.raises(ValueError, match="needs the token"):
        slot(token="")


@pytest.mark.parametrize("where", ["active", "queued"])
@pytest.mark.parametrize("job_id", ["", "*", ">", "a.b", "a b"])
def test_a_job_id_that_could_be_another_subject_is_refused(where: str, job_id: str) -> None:
    value = body()
    value[where][0]["jobId"] = job_id
    assert "jobId" in reason(value)


@pytest.mark.parametrize(
    ("where", "name"),
    [
        ("active", "startedAt"),
        ("active", "heartbeatAt"),
        ("active", "leaseExpiresAt"),
        ("queued", "createdAt"),
        ("queued", "notBefore"),
    ],
)
@pytest.mark.parametrize("text", ["", "noon", "2026-07-01T09:00:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_is_no_instant_is_refused(where: str, name: str, text: str) -> None:
    value = body()
    value[where][0][name] = text
    assert name in reason(value)


def test_a_context_without_a_trace_is_refused() -> None:
    value = body()
    value["queued"][1]["context"]["traceparent"] = "00-0-0-00"
    assert "traceparent" in reason(value)


@pytest.mark.parametrize("name", ["service", "jobType", "keyHash"])
def test_a_state_under_another_key_is_none(name: str) -> None:
    assert "the bucket key for" in reason(body() | {name: "another"})
    other = decode(encode(KEY_STATE), expected=KeyAddress("other", KEY.job_type, KEY.hash))
    assert isinstance(other, Malformed)


@forall(st.binary(max_size=200))
def test_any_bytes_at_all_are_malformed(data: bytes) -> None:
    assert isinstance(read(data), Malformed)


@forall(JSON)
def test_any_json_that_is_no_state_is_malformed(value: object) -> None:
    assert isinstance(read(value), Malformed)


@forall(st.sampled_from(EVERY_FIELD), JSON)
def test_any_value_in_any_field_gives_a_state_that_can_be_written_or_a_reason(
    path: Path, anything: object
) -> None:
    value = body()
    within(value, path)[path[-1]] = anything
    state = read(value)
    if isinstance(state, KeyState):
        moved = admit(state, waiting("one-more"), WhenFull.REPLACE_OLDEST)
        assert decode(encode(moved.state), expected=KEY) == moved.state


@forall(st.integers(0, len(encode(KEY_STATE)) - 1))
def test_a_state_cut_anywhere_is_malformed(length: int) -> None:
    assert isinstance(read(encode(KEY_STATE)[:length]), Malformed)


@pytest.mark.parametrize("depth", [10, 240, 250, 255, 500, 1000, 1020, 5000])
@pytest.mark.parametrize("path", [(), ("active", 0), ("queued", 1, "context")], ids=str)
def test_however_deep_a_strangers_field_is_nested_what_is_read_can_be_written(
    path: Path, depth: int
) -> None:
    value = body()
    within(value, (*path, "theirs"))["theirs"] = "HERE"
    nested = json.dumps(value).encode().replace(b'"HERE"', b"[" * depth + b"]" * depth)
    state = read(nested)
    if isinstance(state, KeyState):
        assert b"[" * depth in encode(state)
    else:
        assert "nested too deep" in state.reason or "not JSON" in state.reason


def test_the_same_state_is_written_as_the_same_bytes() -> None:
    state = read(body())
    assert isinstance(state, KeyState)
    assert encode(state) == encode(KEY_STATE)
    assert rewritten(body()) == body()
