"""A manifest is a contract without its code: read back, it says and checks the same."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from datetime import date, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Annotated, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, PlainValidator, SecretStr

from trellis_jobs.contract.consumer_metadata import (
    CONTRACT,
    MAX_CONTRACT_LENGTH,
    contract_json,
    read_contract,
)
from trellis_jobs.contract.declaration import JobType, ServiceContract
from trellis_jobs.contract.key_policy import KeyConcurrency, QueueDepth, resolve
from trellis_jobs.contract.manifest import from_manifest, normalized, to_manifest
from trellis_jobs.contract.payload_types import PayloadType, TypeMismatch
from trellis_jobs.contract.schema_types import SchemaType
from trellis_jobs.errors import DeclarationError
from trellis_jobs.model.retry import DEFAULT_MAX_SNOOZES, RetryPolicy

GOLDEN: Final = Path(__file__).parents[2] / "contracts" / "vectors" / "service-manifest.json"
MILLISECOND: Final = timedelta(milliseconds=1)
KEYING: Final = resolve(KeyConcurrency(["/origin"]), QueueDepth(), timedelta(seconds=30))

milliseconds = st.integers(1, 10**9).map(lambda n: n * MILLISECOND)
shapes = st.sampled_from(
    [
        PayloadType(str),
        PayloadType(int),
        PayloadType(dict[str, list[float]]),
        PayloadType(type(None)),
    ]
)
key_policies = st.builds(
    lambda segments, active, queued, full: resolve(
        KeyConcurrency(segments, active), QueueDepth(queued, full), timedelta(seconds=30)
    ),
    st.lists(st.sampled_from(["tickets", "/origin", "/a/0"]), min_size=1, max_size=3),
    st.integers(1, 1000),
    st.integers(0, 1000),
    st.sampled_from(["reject", "coalesce", "replace-oldest"]),
)
queues: st.SearchStrategy[JobType[Any, Any]] = st.builds(
    JobType,
    name=st.just("sync"),
    payload=shapes,
    result=shapes,
    concurrency=st.integers(1, 100),
    retry=st.builds(
        RetryPolicy,
        st.integers(1, 100),
        st.lists(milliseconds, max_size=6).map(tuple),
        st.integers(1, 2000),
    ),
    ack_wait=st.integers(100, 10**9).map(lambda n: n * MILLISECOND),
    delivery_limit=st.none() | st.integers(1, 100),
    timeout=st.none() | milliseconds,
    deadline=st.none() | milliseconds,
    progress=st.booleans(),
    logs=st.booleans(),
    dead_letters=st.booleans(),
    shared=st.booleans(),
)


@given(queue=queues, key_policy=st.none() | key_policies)
def test_a_manifest_read_and_written_again_is_the_same(
    queue: JobType[Any, Any], key_policy: Any
) -> None:
    if key_policy is not None:
        payload: Any = PayloadType(dict[str, Any])
        queue = replace(
            queue, payload=payload, key_policy=key_policy, ack_wait=timedelta(seconds=30)
        )
    written = to_manifest(ServiceContract("helpdesk", {"sync": queue}))
    read = from_manifest(json.loads(json.dumps(written)))
    assert to_manifest(read) == written
    again = read.queues["sync"]
    assert replace(again, payload=queue.payload, result=queue.result) == queue


def test_the_golden_manifest_is_read_and_written_again_as_it_was() -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert to_manifest(from_manifest(golden)) == golden


def test_a_manifest_of_the_original_runtimes_may_leave_out_what_has_a_default() -> None:
    least = {
        "format": "trellis.jobs.service@v1",
        "service": "documents",
        "jobs": {"sync": {"payload": {"schema": {"type": "object"}}, "docs": {"summary": "?"}}},
    }
    queue = from_manifest(least).queues["sync"]
    assert (queue.retry.max_tries, queue.concurrency, queue.key_policy) == (5, 1, None)
    assert queue.retry.max_snoozes == DEFAULT_MAX_SNOOZES


def test_a_manifest_names_the_limit_of_snoozes_only_if_it_is_not_the_default() -> None:
    """So a contract that does not use it stays the same document, with the same digest."""
    for limit, written in ((DEFAULT_MAX_SNOOZES, None), (7, 7)):
        queue = JobType(
            name="sync",
            payload=PayloadType(str),
            result=PayloadType(str),
            retry=RetryPolicy(5, (), limit),
        )
        entry = to_manifest(ServiceContract("helpdesk", {"sync": queue}))["jobs"]["sync"]
        assert entry.get("maxSnoozes") == written


class Ticket(BaseModel):
    origin: str
    due: datetime
    day: date | None = None
    wait: timedelta | None = None
    parts: list[Annotated[int, Field(ge=1)]] = []


FITTING: Final = {"origin": "eu", "due": "2026-11-16T12:00:00Z"}


@pytest.mark.parametrize(
    ("payload", "place"),
    [
        (FITTING, None),
        (FITTING | {"day": "2026-11-16", "wait": "PT3S", "parts": [1, 2]}, None),
        ({"origin": "eu"}, "'due' is a required property"),
        (FITTING | {"origin": 3}, "origin: 3 is not of type 'string'"),
        (FITTING | {"due": "tomorrow"}, "due: 'tomorrow' is not a 'date-time'"),
        (FITTING | {"day": "16.11."}, "day: "),
        (FITTING | {"wait": "three"}, "wait: "),
        (FITTING | {"parts": [1, 0]}, "parts.1: 0 is less than the minimum of 1"),
        ("eu", "value: 'eu' is not of type 'object'"),
    ],
)
def test_a_schema_lets_in_what_the_type_itself_would(payload: Any, place: str | None) -> None:
    declared = PayloadType(Ticket)
    known = SchemaType(json.loads(json.dumps(declared.schema())))
    if place is None:
        declared.from_json(payload)
        assert known.to_json(payload) == known.from_json(payload) == payload
        return
    with pytest.raises(TypeMismatch):
        declared.from_json(payload)
    for reads in (known.to_json, known.from_json):
        with pytest.raises(TypeMismatch) as refused:
            reads(payload)
        assert place in str(refused.value)


def test_what_json_cannot_say_is_refused_whatever_the_schema() -> None:
    with pytest.raises(TypeMismatch, match="nan"):
        SchemaType(True).to_json(float("nan"))


class Elsewhere(BaseHTTPRequestHandler):
    """Would answer with a schema that fits everything."""

    asked = 0

    def do_GET(self) -> None:
        Elsewhere.asked += 1
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")


def test_a_schema_that_names_others_elsewhere_is_not_followed_there() -> None:
    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        shape = SchemaType({"$ref": f"http://127.0.0.1:{server.server_port}/other.json"})
        with pytest.raises(TypeMismatch, match="the schema cannot be resolved"):
            shape.to_json(1)
        server.shutdown()
    assert Elsewhere.asked == 0


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda m: m.pop("service"), "service: Field required"),
        (lambda m: m.update(format="other@v1"), "format: "),
        (lambda m: m["jobs"]["sync"].update(ackWaitMs="30000"), "jobs.sync.ackWaitMs: "),
        (lambda m: m["jobs"]["sync"].update(ackWaitMs=10**30), "jobs.sync.ackWaitMs: "),
        (lambda m: m["jobs"]["sync"].update(concurrency=0), "jobs.sync.concurrency: "),
        (lambda m: m["jobs"]["sync"].update(payload={"schema": {"type": 3}}), "not a JSON Schema"),
        (lambda m: m["jobs"].update({"a.b": m["jobs"]["sync"]}), "jobs.a.b: String should match"),
        (
            lambda m: m["jobs"]["sync"].update(keyConcurrency={"key": ["/~2"]}),
            "jobs.sync: key pointer '/~2' has a bad escape",
        ),
        (lambda m: m.update(service="workers"), "'workers'"),
    ],
)
def test_what_is_no_manifest_is_refused_by_its_place(change: Any, complaint: str) -> None:
    queue = JobType(name="sync", payload=PayloadType(str), result=PayloadType(str))
    document = copy.deepcopy(to_manifest(ServiceContract("helpdesk", {"sync": queue})))
    change(document)
    with pytest.raises(DeclarationError) as refused:
        from_manifest(document)
    assert complaint in str(refused.value)


@pytest.mark.parametrize("document", [None, [], "x", 17])
def test_what_is_not_even_an_object_is_no_manifest(document: object) -> None:
    with pytest.raises(DeclarationError, match="not a manifest"):
        from_manifest(document)


def test_a_note_holds_one_queue_and_is_the_same_for_every_writer() -> None:
    queue = JobType(name="sync", payload=PayloadType(Ticket), result=PayloadType(str))
    note = contract_json("helpdesk", queue)
    read = read_contract({CONTRACT: note, "owner": "us"}, "helpdesk", "sync")
    assert read is not None
    assert contract_json("helpdesk", read) == note
    assert read_contract({"owner": "us"}, "helpdesk", "sync") is None


def test_a_note_about_another_queue_is_not_believed() -> None:
    note = contract_json(
        "helpdesk", JobType(name="sync", payload=PayloadType(str), result=PayloadType(str))
    )
    for service, job_type in (("helpdesk", "other"), ("shop", "sync")):
        with pytest.raises(DeclarationError, match="the contract belongs to helpdesk/sync"):
            read_contract({CONTRACT: note}, service, job_type)
    with pytest.raises(DeclarationError, match="not JSON"):
        read_contract({CONTRACT: "{"}, "helpdesk", "sync")


class Odd:
    pass


ODD: Final[Any] = Annotated[Odd, PlainValidator(lambda value: value)]
HUGE: Final[Any] = Annotated[str, Field(description="x" * MAX_CONTRACT_LENGTH)]


@pytest.mark.parametrize("payload", [ODD, HUGE])
def test_a_type_without_a_schema_or_with_too_large_a_one_is_left_open(payload: Any) -> None:
    queue = JobType(
        name="sync", payload=PayloadType(payload), result=PayloadType(str), concurrency=3
    )
    note = contract_json("helpdesk", queue)
    assert len(note) < 1000
    read = read_contract({CONTRACT: note}, "helpdesk", "sync")
    assert read is not None
    assert isinstance(read.payload, SchemaType)
    assert read.payload.is_open
    assert read.concurrency == 3
    assert contract_json("helpdesk", read) == note


class Vault(BaseModel):
    pin: SecretStr
    where: HUGE


def test_of_a_type_that_is_too_large_to_be_told_its_secrets_are() -> None:
    queue = JobType(name="open", payload=PayloadType(Vault), result=PayloadType(SecretStr))
    read = read_contract({CONTRACT: contract_json("helpdesk", queue)}, "helpdesk", "open")
    assert read is not None
    assert (read.payload.secrets, read.result.secrets) == (("/pin",), ("",))


def test_what_a_later_version_says_survives_and_so_do_the_docs() -> None:
    queue = JobType(
        name="sync",
        payload=PayloadType(Ticket),
        result=PayloadType(str),
        key_policy=KEYING,
        docs="Syncs all.",
    )
    document = to_manifest(ServiceContract("helpdesk", {"sync": queue}))
    assert document["jobs"]["sync"]["docs"] == "Syncs all."
    assert to_manifest(from_manifest(document)) == document
    assert normalized(document) == document
    later = copy.deepcopy(document)
    sync = later["jobs"]["sync"]
    for part in (later, sync, sync["payload"], sync["result"], sync["keyConcurrency"]):
        part["laterWord"] = {"x": None}
    assert normalized(later) == later
    assert to_manifest(from_manifest(later)) == document
