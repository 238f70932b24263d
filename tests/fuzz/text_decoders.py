"""The same for what is no JSON, or is typed by people: subjects, headers, options, lines, files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import typer
from pydantic import ValidationError

from jobs_admin.cli.dev.app_output import parse_line
from jobs_admin.cli.filters import Filters
from jobs_admin.cli.jobs.create import read_payload
from jobs_admin.cli.time_options import moment_ago, moment_ahead, seconds
from tests.fuzz import samples
from tests.given import NOON
from trellis_jobs.errors import Unreachable
from trellis_jobs.jetstream.client.delivery_info import read_reply
from trellis_jobs.jetstream.client.pull_consumer import PullBroken, read_end
from trellis_jobs.jetstream.client.server_urls import parse_server_urls
from trellis_jobs.model import subjects
from trellis_jobs.wire import headers as h


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
    TextDecoder("ends of pulls", ("404 No Messages", "409 Batch Completed", "408 x"), pull_end),
    TextDecoder("durations", ("10m", "1.5h", "30", "2026-05-01T12:00:00Z", "2026-05-01"), duration),
    TextDecoder("addresses", ("nats://a:4222", "nats://u:p@h:1,tls://[::1]:2", "host"), address),
    TextDecoder("filters", ("customer.id=17", 'a="17"', "b=true", "c=x"), payload_filter),
    TextDecoder("payloads", ('{"a": 1}', "[1, 2]", '"x"', "1e5"), payload),
    TextDecoder("lines of apps", _LINES, app_line),
)
