"""The same for what is no JSON, or is typed by people: subjects, headers, options, lines, files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import typer
from pydantic import ValidationError

from jobs_admin.cli.dev.app_output import parse_line
from jobs_admin.cli.filters import Filters
from jobs_admin.cli.payload import read_payload
from jobs_admin.cli.time_options import moment_ago, moment_ahead, seconds
from tests.fuzz import samples
from tests.given import NOON, REPORT
from trellis_jobs.errors import Unreachable
from trellis_jobs.jetstream.alarms.due_alarms import DueAlarm
from trellis_jobs.jetstream.client.delivery_info import read_reply
from trellis_jobs.jetstream.client.message import Message
from trellis_jobs.jetstream.client.pull_consumer import PullBroken, read_end
from trellis_jobs.jetstream.client.server_urls import parse_server_urls
from trellis_jobs.model import subjects
from trellis_jobs.wire import headers as h

if TYPE_CHECKING:
    from trellis_jobs.jetstream.client.connection import Connection


@dataclass(frozen=True)
class TextDecoder:
    name: str
    seeds: Sequence[str]
    decode: Callable[[str], object]


def subject(text: str) -> None:
    """What is a subject of ours is built again as it was."""
    match subjects.parse(text):
        case subjects.LifecycleSubject(job, kind):
            assert subjects.lifecycle(job, kind) == text
        case subjects.PresenceSubject(service, job_type, instance):
            assert subjects.presence(service, job_type, instance) == text
        case subjects.WorkSubject(job):
            assert subjects.work(job) == text
        case None:
            pass
    key = subjects.key_address(text)
    assert key is None or subjects.key_state(key) == text
    alarm = subjects.due_address(text)
    assert alarm is None or subjects.due(alarm) == text
    queue = subjects.queue_of(text)
    assert queue is None or subjects.work_of_type(*queue) == text
    subjects.queue_of_prefix(text)
    subjects.rpc_method(text)


def reply(text: str) -> None:
    info = read_reply(text)
    assert info is None or isinstance(info.number, int)


def source(text: str) -> None:
    for name in (h.STREAM_SOURCE, h.RUN_SEQUENCE):
        found = h.source_sequence({name: text})
        assert found is None or 0 <= found < 2**64


def alarm_headers(text: str) -> None:
    """Whatever its headers say, an alarm was set before it came, and is for some time."""
    alarm = subjects.alarm_of_job(REPORT)
    info = read_reply(ACKNOWLEDGE_AT)
    assert info is not None
    for name in (h.ALARM_SET_AT, h.ALARM_AT):
        message = Message(subjects.due(alarm), b"", ACKNOWLEDGE_AT, h.block({name: text}))
        came = DueAlarm(cast("Connection", None), ACKNOWLEDGE_AT, alarm, (message, info))
        assert came.set_at <= came.stored_at
        assert came.at.tzinfo is not None


def pull_end(text: str) -> None:
    status, _, said = text.partition(" ")
    with suppress(PullBroken):
        read_end({"Status": status, "Description": said})


def duration(text: str) -> None:
    for read in (moment_ago, moment_ahead):
        with suppress(typer.BadParameter):
            assert read("--since", text, NOON).tzinfo
    with suppress(typer.BadParameter):
        assert seconds("--timeout", text)


def address(text: str) -> None:
    with suppress(Unreachable):
        assert parse_server_urls(text)


def payload_filter(text: str) -> None:
    with suppress(typer.BadParameter, ValidationError):
        Filters(payload=[text], since="10m").query()


def payload(text: str) -> None:
    with suppress(typer.BadParameter):
        read_payload(text)


def app_line(text: str) -> None:
    parse_line(text)


ACKNOWLEDGE_AT: Final = "$JS.ACK.JOBS_ALARMS_documents.due.1.7.7.1763000000000000000.0"
_TIMES: Final = (
    "2026-05-01T12:00:00Z",
    "2026-05-01T12:00:00.123456+02:00",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
)
_LINES: Final = (
    '{"time":"t","level":"info","logger":"trellis_jobs.worker","message":"worker started",'
    '"service":"lab","queues":["work"]}',
    '{"level":"error","logger":"app","message":"boom","exception":"Traceback","n":1}',
    '{"level":1,"logger":2,"message":3}',
    "error: no such thing",
    "plain words",
)

TEXT_DECODERS: Final = (
    TextDecoder("subjects", samples.SUBJECTS, subject),
    TextDecoder("replies", samples.REPLIES, reply),
    TextDecoder("sources of work messages", samples.SOURCES, source),
    TextDecoder("headers of alarms", _TIMES, alarm_headers),
    TextDecoder("ends of pulls", ("404 No Messages", "409 Batch Completed", "408 x"), pull_end),
    TextDecoder("durations", ("10m", "1.5h", "30", "2026-05-01T12:00:00Z", "2026-05-01"), duration),
    TextDecoder("addresses", ("nats://a:4222", "nats://u:p@h:1,tls://[::1]:2", "host"), address),
    TextDecoder("filters", ("customer.id=17", 'a="17"', "b=true", "c=x"), payload_filter),
    TextDecoder("payloads", ('{"a": 1}', "[1, 2]", '"x"', "1e5"), payload),
    TextDecoder("lines of apps", _LINES, app_line),
)
