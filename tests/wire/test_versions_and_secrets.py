"""A payload's version and its secret places travel with its job; else it is the first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.given import REPORT, completed, created, retried
from trellis_jobs.model.events import Completed, Created, Event, Retried
from trellis_jobs.model.job import Entry
from trellis_jobs.model.reducer import begin
from trellis_jobs.wire import events
from trellis_jobs.wire.event_redaction import redact
from trellis_jobs.wire.events import Undecodable


def written(event: Event) -> dict[str, Any]:
    status = begin(created(), run=7)
    body: dict[str, Any] = json.loads(events.encode(event, status, None))
    return body


def read(body: dict[str, Any]) -> Entry | Undecodable:
    return events.decode(json.dumps(body).encode(), expected=REPORT, sequence=7)


@pytest.mark.parametrize("make", [created, retried])
def test_they_are_written_and_read_again(make: Any) -> None:
    event = make(version=3, secrets=("/a", "/b/*"))
    body = written(event)
    assert (body["payloadVersion"], body["secrets"]) == (3, ["/a", "/b/*"])
    entry = read(body)
    assert isinstance(entry, Entry)
    assert isinstance(entry.event, Created | Retried)
    assert (entry.event.version, entry.event.secrets) == (3, ("/a", "/b/*"))


def test_the_first_version_without_secrets_is_written_as_it_always_was() -> None:
    body = written(created())
    assert not {"payloadVersion", "secrets"} & body.keys()
    entry = read(body)
    assert isinstance(entry, Entry)
    assert isinstance(entry.event, Created)
    assert (entry.event.version, entry.event.secrets) == (1, ())


def test_a_result_has_secrets_of_its_own() -> None:
    body = written(completed(result={"token": "hush"}, secrets=("/token",))) | {
        "state": "completed"
    }
    entry = read(body)
    assert isinstance(entry, Entry)
    assert isinstance(entry.event, Completed)
    assert entry.event.secrets == ("/token",)
    assert entry.event.result == {"token": "hush"}
    assert redact(body)["result"] == {"token": "[secret]"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"payloadVersion": 0},
        {"payloadVersion": "2"},
        {"payloadVersion": True},
        {"secrets": "/a"},
        {"secrets": [1]},
        {"secrets": ["/a"] * 1001},
    ],
)
def test_what_is_neither_a_version_nor_places_is_no_event(wrong: dict[str, Any]) -> None:
    assert isinstance(read(written(created()) | wrong), Undecodable)
