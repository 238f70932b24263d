"""The golden messages of contracts/vectors: one of every kind, as our own writers send them.

They are the compatibility promise. To change one on purpose: `python -m tools.wire_vectors`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from tests.given import (
    NOON,
    ONE_OF_EACH,
    REPORT,
    SECOND,
    after,
    created,
    dead,
    failed,
    heartbeat,
    key_state,
    logged,
    progressed,
    retry_scheduled,
    slot,
    snoozed,
    started,
    waiting,
)
from trellis_jobs.contract.declaration import DEFAULT_ACK_WAIT, JobType, ServiceContract
from trellis_jobs.contract.key_policy import KeyConcurrency, QueueDepth, resolve
from trellis_jobs.contract.manifest import to_manifest
from trellis_jobs.contract.payload_types import PayloadType
from trellis_jobs.contract.versions import upgraded_elsewhere
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.job_status import JobStatus
from trellis_jobs.model.presence import WorkerHeartbeat
from trellis_jobs.model.reducer import Illegal, advance
from trellis_jobs.model.retry import RetryPolicy
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import replace
from trellis_jobs.wire import events, headers, keys, presence

FOLDER: Final = Path(__file__).parents[1] / "contracts" / "vectors"
# Made by the original runtimes, not by our writers.
BORROWED: Final = frozenset({"key-derivation.json", "contract-changes.json"})
EVENT_ID: Final = "0123456789abcdef01234567"
RUN: Final = 17

BEAT: Final = WorkerHeartbeat(
    service=REPORT.service,
    job_type=REPORT.job_type,
    instance="pod-7",
    at=after(30),
    concurrency=4,
    version="1.2.0",
)

# One runs and two wait, of which another runtime has queued the second.
KEY_STATE: Final = key_state(
    max_queued=2,
    active=(slot(),),
    queued=(
        waiting("01JQEXAMP1E0000000000000AB", created_at=after(2)),
        waiting(
            "01JQEXAMP1E0000000000000AC",
            created_at=after(3),
            context=replace(created().context, tracestate="vendor=1"),
            unknown={"submissionId": "0b9d"},
        ),
    ),
    stale_takeovers=1,
    updated_at=after(11),
    unknown={"coalescedBySubmissionId": {}},
)

_ACTIVE = (created(deadline=after(600)), started())
_BEFORE: Final[Mapping[EventKind, tuple[e.Event, ...]]] = {
    EventKind.SCHEDULED: (),
    EventKind.CREATED: (),
    EventKind.STARTED: _ACTIVE[:1],
    EventKind.RETRIED: (*_ACTIVE, failed()),
    EventKind.CANCELLED: _ACTIVE[:1],
    EventKind.SKIPPED: _ACTIVE[:1],
    EventKind.EXPIRED: (*_ACTIVE, retry_scheduled()),
    EventKind.DEAD: (_ACTIVE[0], started(tries=3)),
    EventKind.DISMISSED: (_ACTIVE[0], started(tries=3), dead()),
    EventKind.STALE_COMPLETION_IGNORED: (
        *_ACTIVE,
        retry_scheduled(),
        started(attempt=SECOND, tries=2),
    ),
}
_FULLER: Final[Mapping[EventKind, e.Event]] = {
    EventKind.CREATED: _ACTIVE[0],
    EventKind.HEARTBEAT: heartbeat(),
    EventKind.RETRY: retry_scheduled(notes=progressed().notes),
    EventKind.FAILED: replace(
        failed(), error=replace(failed().error, traceback="Traceback …\nBadFile: not a PDF")
    ),
    EventKind.COMPLETED: e.Completed(
        job=REPORT,
        context=replace(created().context, tracestate="vendor=1"),
        at=NOON + timedelta(seconds=2, microseconds=345),
        tries=1,
        attempt=started().attempt,
        notes=logged().notes,
        result={"pages": 4, "title": "Übersicht"},
    ),
}


@dataclass(frozen=True)
class Golden:
    """An event with where it leaves its job and where the job was before."""

    event: e.Event
    status: JobStatus
    previous: JobState | None

    @property
    def subject(self) -> str:
        return subjects.lifecycle(self.event.job, self.event.kind)

    @property
    def body(self) -> bytes:
        return events.encode(self.event, self.status, self.previous)

    @property
    def message(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "headers": headers.of_event(self.event.context, EVENT_ID),
            "body": json.loads(self.body),
        }


def golden(kind: EventKind) -> Golden:
    example = next(event for event in ONE_OF_EACH if event.kind is kind)
    return _golden(_BEFORE.get(kind, _ACTIVE), _FULLER.get(kind, example))


def golden_snooze() -> Golden:
    """The second snooze of a job."""
    again = snoozed(at=after(63), attempt=SECOND, next_attempt_at=after(3663))
    return _golden((*_ACTIVE, snoozed(), started(at=after(62), attempt=SECOND)), again)


def _golden(history: Iterable[e.Event], event: e.Event) -> Golden:
    before: JobStatus | None = None
    for past in history:
        before = _moved(before, past).recorded_at(RUN)
    after_it = _moved(before, event)
    said = replace(event, tries=after_it.tries)
    return Golden(said, after_it, before.state if before else None)


def heartbeat_message() -> dict[str, Any]:
    subject = subjects.presence(BEAT.service, BEAT.job_type, BEAT.instance)
    return {"subject": subject, "headers": {}, "body": json.loads(presence.encode(BEAT))}


def key_state_message() -> dict[str, Any]:
    subject = subjects.key_state(KEY_STATE.address)
    return {"subject": subject, "headers": {}, "body": json.loads(keys.encode(KEY_STATE))}


class RenderReport(BaseModel):
    doc: str
    pages: int | None = None


class Rendered(BaseModel):
    pages: int


CONTRACT: Final = ServiceContract(
    "documents",
    {
        "render-report": JobType(
            name="render-report",
            payload=PayloadType(RenderReport),
            result=PayloadType(Rendered),
            concurrency=4,
            retry=RetryPolicy(3, (timedelta(seconds=5), timedelta(seconds=30))),
            ack_wait=timedelta(seconds=10),
            delivery_limit=20,
            timeout=timedelta(minutes=2),
            deadline=timedelta(hours=1),
            dead_letters=False,
            shared=True,
        ),
        "forget-report": JobType(
            name="forget-report", payload=PayloadType(str), result=PayloadType(type(None))
        ),
        "index-report": JobType(
            name="index-report",
            payload=PayloadType(RenderReport),
            result=PayloadType(type(None)),
            key_policy=resolve(
                KeyConcurrency(["index", "/doc"], max_active=2, stale_policy="block"),
                QueueDepth(max_queued_per_key=3, when_full="coalesce"),
                DEFAULT_ACK_WAIT,
            ),
            version=3,
            upgrades=dict.fromkeys((1, 2), upgraded_elsewhere),
            docs="Makes a report findable.",
        ),
    },
)


def texts() -> dict[str, str]:
    """Every file of the folder that is ours, by name."""
    messages = {f"{kind.value}.json": golden(kind).message for kind in EventKind}
    messages["retry-snooze.json"] = golden_snooze().message
    messages["worker-heartbeat.json"] = heartbeat_message()
    messages["key-state.json"] = key_state_message()
    messages["service-manifest.json"] = to_manifest(CONTRACT)
    return {
        name: json.dumps(message, indent=2, ensure_ascii=False) + "\n"
        for name, message in messages.items()
    }


def _moved(before: JobStatus | None, event: e.Event) -> JobStatus:
    moved = advance(before, event)
    if isinstance(moved, Illegal):
        raise TypeError(f"no golden history may contain this: {moved.reason}")
    return moved


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
