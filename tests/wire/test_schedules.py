"""Records of schedules ⇄ JSON: read back as they were; what is none is refused with a reason."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, Final

import pytest

from tests.model.schedules.given import DAY, HOUR, MINUTE, NIGHTLY, cron, every, utc
from tests.model.schedules.given import record as make
from trellis_jobs.model.schedules.address import ScheduleAddress
from trellis_jobs.model.schedules.definition import CatchUp, Overlap
from trellis_jobs.model.schedules.record import (
    Cancellation,
    Origin,
    Pause,
    PlannedJob,
    Run,
    ScheduleRecord,
    SkipReason,
)
from trellis_jobs.model.values import replace
from trellis_jobs.wire.schedules import decode, definition_from_json, definition_to_json, encode

NOON: Final = utc("2026-03-28T12:00")
FULL: Final = make(
    cron(
        "0 9 * * *",
        "America/New_York",
        payload={"doc": "d-1", "to": [{"card": "4111"}], "n": 1.5},
        version=2,
        secrets=("/to/*/card",),
        jitter=timedelta(milliseconds=1500),
        start=NOON,
        end=NOON + 365 * DAY,
        catch_up=CatchUp.ALL,
        max_catch_up=7,
        overlap=Overlap.CANCEL_RUNNING,
    ),
    NOON,
    origin=Origin.RUNTIME,
    by="ann",
    unfinished=(
        PlannedJob(
            job_id="01NEXT",
            tick=NOON + HOUR,
            cancel=Cancellation("01BEFORE", True),
            cancel_triggered=Cancellation("01MANUAL"),
        ),
        PlannedJob(job_id="01MANUAL", tick=NOON + 2 * HOUR, triggered=True, by="ben"),
    ),
    paused=Pause(since=NOON, until=NOON + DAY, by="ann", reason="the printer burns"),
    last_job="01BEFORE",
    last_triggered="01MANUAL",
    runs=(
        Run(tick=NOON, at=NOON + MINUTE, skipped=SkipReason.MISSED, count=12),
        Run(tick=NOON, at=NOON + MINUTE, job_id="01BEFORE"),
        Run(tick=NOON, at=NOON, job_id="01BUSY", refused="the key is busy"),
        Run(tick=NOON, at=NOON, job_id="01MANUAL", triggered=True, by="ben"),
    ),
)
SHORT: Final = make(every(300, payload=None), NOON)


@pytest.mark.parametrize("record", [FULL, SHORT])
def test_a_record_is_read_back_as_it_was(record: ScheduleRecord) -> None:
    read = decode(encode(record), expected=NIGHTLY)
    assert read == record
    assert isinstance(read, ScheduleRecord)
    assert read.definition.fingerprint == record.definition.fingerprint


def test_a_record_is_written_as_other_versions_read_it() -> None:
    assert json.loads(encode(FULL)) == {
        "service": "documents",
        "jobType": "render-report",
        "schedule": "nightly",
        "definition": {
            "cron": "0 9 * * *",
            "timeZone": "America/New_York",
            "payload": {"doc": "d-1", "to": [{"card": "4111"}], "n": 1.5},
            "payloadVersion": 2,
            "secrets": ["/to/*/card"],
            "jitterMs": 1500,
            "start": "2026-03-28T12:00:00Z",
            "end": "2027-03-28T12:00:00Z",
            "catchUp": "all",
            "maxCatchUp": 7,
            "overlap": "cancel-running",
        },
        "origin": "runtime",
        "by": "ann",
        "decidedUntil": "2026-03-28T12:00:00Z",
        "unfinished": [
            {
                "jobId": "01NEXT",
                "tick": "2026-03-28T13:00:00Z",
                "cancel": {"jobId": "01BEFORE", "evenIfRunning": True},
                "cancelTriggered": {"jobId": "01MANUAL", "evenIfRunning": False},
            },
            {
                "jobId": "01MANUAL",
                "tick": "2026-03-28T14:00:00Z",
                "triggered": True,
                "by": "ben",
            },
        ],
        "paused": {
            "since": "2026-03-28T12:00:00Z",
            "until": "2026-03-29T12:00:00Z",
            "by": "ann",
            "reason": "the printer burns",
        },
        "lastJobId": "01BEFORE",
        "lastTriggeredJobId": "01MANUAL",
        "runs": [
            {
                "tick": "2026-03-28T12:00:00Z",
                "at": "2026-03-28T12:01:00Z",
                "skipped": "missed",
                "count": 12,
            },
            {
                "tick": "2026-03-28T12:00:00Z",
                "at": "2026-03-28T12:01:00Z",
                "jobId": "01BEFORE",
            },
            {
                "tick": "2026-03-28T12:00:00Z",
                "at": "2026-03-28T12:00:00Z",
                "jobId": "01BUSY",
                "refused": "the key is busy",
            },
            {
                "tick": "2026-03-28T12:00:00Z",
                "at": "2026-03-28T12:00:00Z",
                "jobId": "01MANUAL",
                "triggered": True,
                "by": "ben",
            },
        ],
        "createdAt": "2026-03-28T12:00:00Z",
        "updatedAt": "2026-03-28T12:00:00Z",
    }


def test_a_plain_schedule_is_short() -> None:
    assert definition_to_json(SHORT.definition) == {
        "everyMs": 300_000,
        "payload": None,
        "catchUp": "once",
        "overlap": "allow",
    }


def test_fields_of_a_later_version_are_preserved() -> None:
    body = json.loads(encode(FULL))
    body["region"] = "north"
    body["definition"]["calendar"] = {"skip": ["2026-12-25"]}
    read = decode(json.dumps(body).encode(), expected=NIGHTLY)
    assert isinstance(read, ScheduleRecord)
    assert json.loads(encode(read)) == body
    assert replace(read, definition=FULL.definition, unknown={}) == FULL
    assert read.definition.fingerprint == FULL.definition.fingerprint


def changed(path: tuple[str | int, ...], value: Any) -> bytes:
    body = json.loads(encode(FULL))
    inner: Any = body
    for step in path[:-1]:
        inner = inner[step]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return json.dumps(body).encode()


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("service",), "orders", "the body names orders/render-report/nightly, the subject"),
        (("schedule",), "a.b", "not a valid subject token"),
        (("definition",), ..., "definition must be dict"),
        (("definition", "cron"), "61 * * * *", "definition: cron '61 * * * *': the minute field"),
        (("definition", "cron"), 7, "cron must be str"),
        (("definition", "timeZone"), "Mars/Olympus", "time zone 'Mars/Olympus' is not known"),
        (("definition", "timeZone"), ..., "timeZone must be str"),
        (("definition", "cron"), ..., "everyMs must be int"),
        (("definition", "jitterMs"), -1, "jitterMs must be at least 0"),
        (("definition", "jitterMs"), 10**15, "jitterMs must be at most"),
        (("definition", "catchUp"), "twice", "catchUp 'twice' is not known"),
        (("definition", "overlap"), ..., "overlap must be str"),
        (("definition", "maxCatchUp"), 0, "max_catch_up is between 1 and 1000"),
        (("definition", "start"), "2026-01-01", "start must include its offset"),
        (("definition", "end"), "2020-01-01T00:00:00Z", "is before start"),
        (("definition", "secrets"), [1], "secrets must be a list"),
        (("origin",), "moon", "origin 'moon' is not known"),
        (("decidedUntil",), ..., "decidedUntil must be str"),
        (("unfinished",), [{"jobId": "a b", "tick": "2026-03-28T12:00:00Z"}], "subject token"),
        (("unfinished", 0, "cancel"), {}, "jobId must be str"),
        (("unfinished",), [{}] * 2001, "unfinished must have at most 2000 entries"),
        (("lastJobId",), "a.b", "not a valid subject token"),
        (("paused", "since"), ..., "since must be str"),
        (("runs", 0, "skipped"), "bored", "skipped 'bored' is not known"),
        (("runs", 0, "count"), 0, "count must be at least 1"),
        (("createdAt",), "yesterday", "createdAt must be an RFC 3339 time"),
    ],
)
def test_what_is_no_record_is_refused_with_the_reason(
    path: tuple[str | int, ...], value: Any, reason: str
) -> None:
    refusal = decode(changed(path, value), expected=NIGHTLY)
    assert isinstance(refusal, str)
    assert reason in refusal


@pytest.mark.parametrize("data", [b"", b"7", b"[]", b"{", b"\xff", b'{"service":"documents"}'])
def test_bytes_that_are_no_record_are_refused(data: bytes) -> None:
    assert isinstance(decode(data, expected=NIGHTLY), str)


def test_a_record_under_the_subject_of_another_is_refused() -> None:
    other = ScheduleAddress("documents", "render-report", "weekly")
    assert "nightly" in str(decode(encode(FULL), expected=other))


def test_an_offset_in_a_time_is_only_another_way_to_write_it() -> None:
    body = definition_to_json(FULL.definition)
    again = definition_from_json({**body, "start": "2026-03-28T14:00:00+02:00", "end": None})
    assert again.start == NOON
    assert again.end is None
