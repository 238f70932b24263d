"""Inputs that once broke something, each by the decoder that read it."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

import orjson
import pytest
import typer

from jobs_admin.cli.dev.app_output import AppLine, parse_line
from jobs_admin.cli.time_options import moment_ahead
from jobs_admin.explain.views import log_entries
from jobs_admin.projection.batch import project, read
from jobs_admin.projection.rows import to_row
from tests.fuzz import samples
from tests.fuzz.corrupt_logs import FIRST_STORED_NS
from tests.given import NOON, REPORT, after, created, retry_scheduled, started
from tests.given import log as entries_of
from trellis_jobs.contract.consumer_metadata import CONTRACT, newer_contract, read_contract
from trellis_jobs.contract.manifest import from_manifest
from trellis_jobs.errors import DeclarationError
from trellis_jobs.jetstream.client.delivery_info import read_reply
from trellis_jobs.jetstream.log.feed import LogMessage
from trellis_jobs.jetstream.work.delivery import answer_bytes
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.settlement import Nak
from trellis_jobs.model.timeline import LogRecord, TimelineSpan, timeline
from trellis_jobs.wire import jobs
from trellis_jobs.wire.fields import BadField
from trellis_jobs.wire.headers import RUN_SEQUENCE, source_sequence


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def manifest(payload: dict[str, Any]) -> dict[str, Any]:
    return {"service": "documents", "jobs": {"render-report": {"payload": payload}}}


def with_schema(schema: dict[str, Any]) -> dict[str, Any]:
    return manifest({"schema": schema})


DOUBLING = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
DEEP: dict[str, Any] = {}
for _ in range(300):
    DEEP = {"items": DEEP}


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (manifest({"version": 2**63, "upgradesFrom": 1}), "at most 1000 upgrades"),
        (with_schema({"properties": "no object"}), "not a JSON Schema"),
        (with_schema(DEEP), "nested too deep"),
        (with_schema({"$defs": DOUBLING, "$ref": "#/$defs/d0"}), "too many nested references"),
    ],
    ids=["two to the 63 upgrades", "no schema", "deep", "doubling"],
)
def test_a_manifest_that_no_worker_could_follow_is_refused(
    document: dict[str, Any], told: str
) -> None:
    with pytest.raises(DeclarationError, match=told):
        from_manifest(document)


def test_a_contract_at_a_consumer_may_be_nested_however_deep() -> None:
    note = '{"jobs":' + nested(2_000).decode() + "}"
    assert newer_contract("{}", note) == "{}"
    with pytest.raises(DeclarationError, match="not JSON"):
        read_contract({CONTRACT: note}, "documents", "render-report")


@pytest.mark.parametrize(
    "change", [{"errors": 1}, {"errors": ["x"]}, {"earlierRuns": [[]]}, {"state": "null"}]
)
def test_a_row_that_holds_no_job_says_so(change: dict[str, Any]) -> None:
    """Else the file would not be known to be damaged, and not be made again."""
    with pytest.raises(BadField):
        jobs.from_json(orjson.loads(samples.JOBS[0]) | change)


@pytest.mark.parametrize(
    "reply",
    [
        "$JS.ACK.JOBS_WORK.lab-work..41.7.1774699200000000000.3",
        "$JS.ACK.JOBS_WORK.lab-work.one.41.7.1774699200000000000.3",
        "$JS.ACK.hub.ACCOUNT.JOBS_WORK.lab-work.1.41.7.3",
    ],
)
def test_a_forged_reply_subject_is_not_that_of_a_delivery(reply: str) -> None:
    assert read_reply(reply) is None


def test_a_number_that_no_message_can_have_is_no_sequence() -> None:
    """A worker would have to write it into an event, and could not: it would come for ever."""
    assert source_sequence({RUN_SEQUENCE: str(2**64)}) is None


@pytest.mark.parametrize("text", ["0001-01-01", "9999-12-31T23:59:59"])
def test_the_ends_of_time_are_told_from_times(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for zone in ("UTC+12", "UTC-12"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        with suppress(typer.BadParameter):
            assert moment_ahead("--deadline", text, NOON).tzinfo
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    "line",
    [
        '{"level":1,"logger":2,"message":3}',
        '{"level":"info","logger":"app","message":"worker started","service":"lab"}',
        '{"level":"info","logger":"app","message":"worker started","service":"lab","queues":7}',
    ],
)
def test_a_line_that_only_looks_like_a_record_is_what_the_app_said(line: str) -> None:
    assert isinstance(parse_line(line), AppLine)


def told(kind: EventKind, data: bytes, sequence: int = 17) -> LogMessage:
    stored = FIRST_STORED_NS + sequence
    return LogMessage(subjects.lifecycle(REPORT, kind), sequence, stored, 0, data)


def created_with(name: str, value: bytes) -> LogMessage:
    body = orjson.loads(samples.EVENTS[0]) | {name: "HERE"}
    return told(EventKind.CREATED, orjson.dumps(body).replace(b'"HERE"', value))


def test_secrets_in_a_payload_that_is_nested_without_end_stop_no_projection() -> None:
    body = orjson.loads(created_with("payload", nested(900)).data)
    body["secrets"] = ["/*" * 900]
    data = json.dumps({**body, "payload": "HERE"}).encode().replace(b'"HERE"', nested(900))
    changes = project(read([told(EventKind.CREATED, data)]), {})
    assert [aside.reason for aside in changes.aside] == ["payload is nested too deep"]


@pytest.mark.parametrize("depth", [200, 230, 244, 250, 254, 300, 1_000])
@pytest.mark.parametrize("name", ["payload", "unheardOf"])
def test_however_deep_an_event_is_nested_it_is_taken_in_and_told(name: str, depth: int) -> None:
    message = created_with(name, nested(depth))
    changes = project(read([message]), {})
    assert len(changes.jobs) + len(changes.aside) == 1
    assert all(to_row(row) for row in changes.jobs.values())
    [entry] = log_entries([message])
    orjson.dumps({"entries": [orjson.Fragment(entry.encode())]})


def test_a_try_that_is_due_at_the_end_of_time_has_a_place_in_the_story() -> None:
    """Though what its worker's clock said is further from that than time is long."""
    begin, end = NOON.replace(year=1), NOON.replace(year=9999)
    waits = retry_scheduled(at=begin, next_attempt_at=end)
    history = [
        LogRecord(entry.sequence, after(entry.sequence), entry)
        for entry in entries_of(created(), started(), waits)
    ]
    backing_off = timeline(history, after(99))[-1]
    assert isinstance(backing_off, TimelineSpan)
    assert backing_off.until == end


def test_a_job_that_is_due_in_eight_thousand_years_is_put_back_for_one() -> None:
    """As often as it takes: the server cannot count that far."""
    year = json.loads((answer_bytes(Nak(timedelta(days=2_900_000))) or b"").removeprefix(b"-NAK "))
    assert year == {"delay": 365 * 86_400 * 10**9}
