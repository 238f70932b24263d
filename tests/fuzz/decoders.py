"""Every place where bytes from outside are decoded, and what must hold of the result.

A decoder takes any bytes and returns; an exception from it is a bug.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from unittest.mock import patch

import orjson
from pydantic import ValidationError

from jobs_admin.api.client_errors import error_from
from jobs_admin.api.contract import RPCS
from jobs_admin.cli import nats_contexts
from tests.fuzz import samples
from tests.given import KEY, NOON, REPORT, after, slot, waiting
from tests.model.schedules.given import DEPLOY, NIGHTLY
from tools.wire_vectors import BEAT
from trellis_jobs.contract.bindings import Bindings
from trellis_jobs.contract.consumer_metadata import (
    CONTRACT,
    contract_json,
    newer_contract,
    read_contract,
)
from trellis_jobs.contract.manifest import from_manifest, to_manifest
from trellis_jobs.contract.payload_types import TypeMismatch
from trellis_jobs.errors import (
    DeclarationError,
    InvalidToken,
    JobsError,
    KeyUnresolvable,
    RequestRefused,
    StreamFull,
)
from trellis_jobs.jetstream.client.message import Message
from trellis_jobs.jetstream.client.pub_ack import Refused, read_pub_ack
from trellis_jobs.model.job import Entry
from trellis_jobs.model.keys import slots as key_slots
from trellis_jobs.model.keys.backlog import WhenFull, admit
from trellis_jobs.model.keys.state import KeyState
from trellis_jobs.model.keys.template import KeyTemplate
from trellis_jobs.model.presence import WorkerHeartbeat
from trellis_jobs.model.schedules.changes import finish, pause, put, resume
from trellis_jobs.model.schedules.firing import fire
from trellis_jobs.model.schedules.record import Pause, ScheduleRecord
from trellis_jobs.model.states import JobState
from trellis_jobs.model.subjects import PresenceSubject
from trellis_jobs.wire import advisories, events, jobs, keys, presence, schedules
from trellis_jobs.wire.event_redaction import redact
from trellis_jobs.wire.fields import BadField

_POD: Final = PresenceSubject(BEAT.service, BEAT.job_type, BEAT.instance)


@dataclass(frozen=True)
class Decoder:
    name: str
    seeds: Sequence[bytes]
    decode: Callable[[bytes], object]


def event(data: bytes) -> None:
    """What is read is written again as it was, and may be shown."""
    entry = events.decode(data, expected=REPORT, sequence=7)
    if not isinstance(entry, Entry):
        assert entry.reason
        return
    redact(orjson.loads(data))
    if entry.status is None:
        return
    try:
        again = events.encode(entry.event, entry.status, None)
    except (TypeError, RecursionError):  # JSON can be read deeper than it can be written
        return
    assert events.decode(again, expected=REPORT, sequence=7) == entry


def heartbeat(data: bytes) -> None:
    beat = presence.decode(data, expected=_POD)
    if isinstance(beat, WorkerHeartbeat):
        assert presence.decode(presence.encode(beat), expected=_POD) == beat
    else:
        assert beat


def key_state(data: bytes) -> None:
    """Whatever it says, every move can be made on it, and what is written is read again."""
    state = keys.decode(data, expected=KEY)
    if not isinstance(state, KeyState):
        assert state.reason
        return
    assert keys.decode(keys.encode(state), expected=KEY) == state
    place, own = waiting("01NEW", created_at=after(60)), slot("01NEW", "token")
    moves = [admit(state, place, when_full).state for when_full in WhenFull]
    moves += [
        key_slots.acquire(state, own, place, may_overtake=overtakes).state
        for overtakes in (True, False)
    ]
    for holder in state.active:
        moves.append(key_slots.release(state, holder.token, requeue=place).state)
        moves.append(key_slots.drop(state, holder.token, counted=False).state)
        moves.append(key_slots.renew(state, holder.token, at=NOON, ttl=timedelta(seconds=60)).state)
    for moved in moves:
        assert keys.decode(keys.encode(moved), expected=KEY) == moved


def schedule(data: bytes) -> None:
    """Whatever it says, it can be fired and changed, and what is written is read again."""
    record = schedules.decode(data, expected=NIGHTLY)
    if not isinstance(record, ScheduleRecord):
        assert record
        return
    assert schedules.decode(schedules.encode(record), expected=NIGHTLY) == record
    done = finish(record, [job.job_id for job in record.unfinished], now=NOON)
    moves = [fire(done, now=NOON, previous=state).record for state in (None, JobState.ACTIVE)]
    moves.append(resume(record, now=NOON).record)
    moves.append(pause(record, Pause(since=NOON)).record)
    moves.append(put(record, samples.SCHEDULE.definition, author=DEPLOY, now=NOON).record)
    for moved in moves:
        assert schedules.decode(schedules.encode(moved), expected=NIGHTLY) == moved


def stored_job(data: bytes) -> None:
    with suppress(BadField, InvalidToken, orjson.JSONDecodeError):
        body = orjson.loads(data)
        if isinstance(body, dict):
            jobs.from_json(body)


def advisory(data: bytes) -> None:
    advisories.decode(data)


def manifest(data: bytes) -> None:
    """What is a manifest can be written as one, and says the same."""
    with suppress(DeclarationError, orjson.JSONDecodeError):
        contract = from_manifest(orjson.loads(data))
        written = to_manifest(contract)
        assert to_manifest(from_manifest(written)) == written
        for queue in contract.queues.values():
            with suppress(TypeMismatch):
                queue.payload.from_json({"doc": "d-1", "pages": [1, None]})


def note(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    newer_contract(text, text)
    with suppress(DeclarationError):
        queue = read_contract({CONTRACT: text}, "documents", "render-report")
        assert queue is not None
        assert contract_json("documents", queue)


def bindings(data: bytes) -> None:
    with suppress(DeclarationError, InvalidToken, orjson.JSONDecodeError):
        Bindings.from_json(orjson.loads(data))


def requests(data: bytes) -> None:
    for rpc in RPCS.values():
        with suppress(ValidationError):
            rpc.input.model_validate_json(data)


def answers(data: bytes) -> None:
    error_from(data)
    for rpc in RPCS.values():
        with suppress(ValidationError):
            rpc.output.model_validate_json(data)


def published(data: bytes) -> None:
    with suppress(RequestRefused, StreamFull):
        answer = read_pub_ack("trellis.jobs.lab.work.J.created", Message("_INBOX.a", data))
        assert answer is None or isinstance(answer, int | Refused)


def nats_context(data: bytes) -> None:
    with TemporaryDirectory() as made, patch.dict(os.environ, XDG_CONFIG_HOME=made):
        folder = Path(made) / "nats" / "context"
        folder.mkdir(parents=True)
        (folder / "corrupt.json").write_bytes(data)
        (folder.parent / "context.txt").write_bytes(data)
        nats_contexts.selected()
        with suppress(JobsError):
            nats_contexts.load_context("corrupt")


def keyed_payload(data: bytes) -> None:
    with suppress(orjson.JSONDecodeError):
        payload = orjson.loads(data)
        for template in (KeyTemplate(("a", "/doc")), KeyTemplate(("/to/0/card", "/n"))):
            with suppress(KeyUnresolvable):
                assert template.resolve(payload) == template.resolve(payload)


REQUESTS: Final = tuple(
    map(
        orjson.dumps,
        (
            {"limit": 5, "offset": 0, "service": "lab", "type": "work", "minSeq": 3},
            {"limit": 1, "state": ["dead"], "since": NOON, "payload": {"customer.id": 7}},
            {"limit": 1, "before": {"createdAt": NOON, "firstSeq": 17}, "error": "503"},
            {"id": "01A", "service": "lab", "type": "work", "by": "ann", "reason": "why"},
            {"service": "lab", "type": "work", "key": "a:b", "jobId": "01A"},
            {"windowMinutes": 60},
        ),
    )
)
_ANSWERS: Final = tuple(
    map(
        orjson.dumps,
        (
            {"id": "e", "type": "ValidationError", "message": "m", "issues": [{"path": "/x"}]},
            {"type": "NotFoundError", "message": "m", "context": {"requestId": "r"}},
            {"entries": [], "count": 0, "offset": 0, "limit": 1},
            {"job": orjson.loads(samples.JOBS[0]), "seq": 3},
        ),
    )
)

_CONTEXTS: Final = tuple(
    map(
        orjson.dumps,
        (
            {"url": "nats://a:4222", "creds": "~/a.creds", "user": "ann", "password": "p"},
            {"url": "tls://b", "nkey": "/n", "ca": "~/ca.pem", "cert": "c", "key": "k"},
            {"token": "t", "jetstream_domain": "hub", "inbox_prefix": "_I", "nsc": ""},
        ),
    )
)
_PUBLISHED: Final = (
    b'{"stream":"JOBS","seq":17}',
    b'{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 17"}}',
    b'{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"}}',
)

DECODERS: Final = (
    Decoder("events", samples.EVENTS, event),
    Decoder("events of other runtimes", samples.FOREIGN, event),
    Decoder("heartbeats", samples.BEATS, heartbeat),
    Decoder("key states", samples.KEY_STATES, key_state),
    Decoder("schedules", samples.SCHEDULES, schedule),
    Decoder("jobs in the projection", samples.JOBS, stored_job),
    Decoder("advisories", samples.ADVISORIES, advisory),
    Decoder("manifests", samples.MANIFESTS, manifest),
    Decoder("contracts at consumers", samples.MANIFESTS, note),
    Decoder("bindings", samples.BINDINGS, bindings),
    Decoder("requests", REQUESTS, requests),
    Decoder("answers", _ANSWERS, answers),
    Decoder("answers to publishes", _PUBLISHED, published),
    Decoder("contexts of natscli", _CONTEXTS, nats_context),
    Decoder("payloads with keys", [orjson.dumps(samples.FULL[0].payload)], keyed_payload),
)
