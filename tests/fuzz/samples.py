"""Valid messages of every kind, to be corrupt: golden ones, and what our own writers make."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.given import (
    CONTEXT,
    FIRST,
    KEY,
    LEADING_TO,
    NOON,
    REPORT,
    SECOND,
    after,
    created,
    job,
    retried,
    started,
)
from tests.model.schedules.given import cron, every, record
from tools.wire_vectors import (
    BEAT,
    CONTRACT,
    FOLDER,
    KEY_STATE,
    golden,
)
from trellis_jobs.contract.manifest import to_manifest
from trellis_jobs.model import subjects
from trellis_jobs.model.concurrency import Concurrency, QueuePolicy
from trellis_jobs.model.events import Event, EventKind
from trellis_jobs.model.job_status import JobStatus
from trellis_jobs.model.reducer import Illegal, advance
from trellis_jobs.model.schedules.definition import CatchUp, Overlap
from trellis_jobs.model.schedules.record import Cancellation, Pause, PlannedJob, Run, SkipReason
from trellis_jobs.model.states import JobState
from trellis_jobs.model.try_limits import TryLimits
from trellis_jobs.model.values import replace
from trellis_jobs.wire import events, headers, jobs, keys, presence, schedules
from trellis_jobs.wire.fields import dumps

_HELD: Final = Concurrency(
    key="zendesk:acme",
    key_hash=KEY.hash,
    slot_token=FIRST.id,
    instance=FIRST.instance,
    heartbeat_at=after(2),
    lease_expires_at=after(62),
    stale_takeovers=1,
)
# With everything that an event may carry.
FULL: Final = (
    created(
        payload={"doc": "d-1", "to": [{"card": "4111"}], "n": 1.5},
        version=2,
        secrets=("/to/*/card", "/doc"),
        deadline=after(600),
        try_limits=TryLimits(after(5) - NOON, after(9) - NOON),
        concurrency=_HELD,
        queue_policy=QueuePolicy(
            outcome="replaced",
            reason="queue-depth",
            existing_job_id="01A",
            replaced_job_id="01B",
        ),
    ),
    started(concurrency=_HELD, waited_for_key=after(5) - NOON, app_version="1.4.2"),
    retried(by="ann", request="01REQ", reason="upstream is back", version=3),
)


def encoded(*history: Event, run: int = 17) -> list[bytes]:
    """The events as the log has them, if each is legal where it stands."""
    stands: JobStatus | None = None
    told = []
    for event in history:
        moved = advance(stands, event)
        assert not isinstance(moved, Illegal), moved
        told.append(events.encode(event, moved, stands.state if stands else None))
        stands = moved.recorded_at(run)
    return told


def foreign(event: bytes) -> bytes:
    """The same from a runtime that says less."""
    body: dict[str, Any] = json.loads(event)
    extra = {"runSeq", "attempt", "errorDetail", "nextAttemptAt"}
    return dumps({name: value for name, value in body.items() if name not in extra})


EVENTS: Final = tuple(golden(kind).body for kind in EventKind) + tuple(encoded(*FULL[:2]))
FOREIGN: Final = tuple(map(foreign, EVENTS))
HISTORIES: Final = tuple(
    tuple(zip((event.kind for event in history), encoded(*history), strict=True))
    for history in (*LEADING_TO.values(), FULL[:2], (*LEADING_TO[JobState.DEAD], FULL[2]))
)
BEATS: Final = (presence.encode(BEAT), presence.encode(replace(BEAT, stopping=True, version=None)))
KEY_STATES: Final = (
    keys.encode(KEY_STATE),
    keys.encode(replace(KEY_STATE, active=(), queued=(), unknown={})),
)
SCHEDULE: Final = record(
    cron(
        "*/5 2-4 * * 1",
        "Europe/Berlin",
        payload={"doc": "d-1"},
        secrets=("/doc",),
        jitter=after(90) - NOON,
        start=after(-9),
        end=after(9_999_999),
        catch_up=CatchUp.ALL,
        overlap=Overlap.REPLACE,
    ),
    after(-9_999),
    unfinished=(
        PlannedJob(job_id="01A", tick=NOON, cancel=Cancellation("01B", True)),
        PlannedJob(job_id="01C", tick=NOON, triggered=True, by="ann"),
    ),
    paused=Pause(since=NOON, until=after(60), by="ann", reason="why"),
    last_job="01B",
    last_triggered="01C",
    runs=(
        Run(tick=NOON, at=NOON, skipped=SkipReason.MISSED, count=3),
        Run(tick=NOON, at=NOON, job_id="01B", refused="full"),
    ),
)
SCHEDULES: Final = (
    schedules.encode(SCHEDULE),
    schedules.encode(record(every(300, jitter=after(9) - NOON), after(-9_999))),
)
JOBS: Final = tuple(dumps(jobs.to_json(job(*history))) for history in LEADING_TO.values())
MANIFESTS: Final = (
    dumps(to_manifest(CONTRACT)),
    (FOLDER / "service-manifest.json").read_bytes(),
    dumps(
        {
            "service": "zendesk",
            "jobs": {
                "sync": {
                    "payload": {"schema": {"type": "object"}, "version": 3, "upgradesFrom": 1},
                    "ackWaitMs": 3000,
                    "keyConcurrency": {
                        "key": ["zendesk", "/account"],
                        "maxActive": 2,
                        "heartbeatIntervalMs": 1000,
                        "heartbeatTtlMs": 9000,
                        "stalePolicy": "block",
                    },
                    "queue": {"maxQueuedPerKey": 3, "whenFull": "coalesce"},
                }
            },
        }
    ),
)
BINDINGS: Final = (
    dumps(
        {
            "namespace": "ns1",
            "workStream": "JOBS_WORK",
            "queues": {
                "render-report": {
                    "publishPrefix": "trellis.jobs.ns1.q7",
                    "workSubject": "trellis.work.ns1.q7",
                    "consumerName": "ns1-q7",
                }
            },
        }
    ),
)
ADVISORIES: Final = (
    dumps(
        {
            "type": "io.nats.jetstream.advisory.v1.max_deliver",
            "id": "abc",
            "timestamp": "2026-07-01T09:00:00.123456789Z",
            "stream": "JOBS_WORK",
            "consumer": "lab-work",
            "stream_seq": 17,
            "deliveries": 5,
        }
    ),
    b'{"timestamp":"2026-07-01T09:00:00Z","stream":"W","consumer":"c","streamSeq":1,'
    b'"num_deliveries":1}',
)
SUBJECTS: Final = (
    *(subjects.lifecycle(REPORT, kind) for kind in EventKind),
    subjects.presence(BEAT.service, BEAT.job_type, BEAT.instance),
    subjects.work(REPORT),
    subjects.key_state(KEY),
    subjects.due(subjects.alarm_of_job(REPORT)),
    subjects.work_of_type("lab", "work"),
    "trellis.jobs.lab.work",
    subjects.rpc("Jobs.List"),
)
REPLIES: Final = (
    "$JS.ACK.JOBS_WORK.lab-work.1.41.7.1774699200000000000.3",
    "$JS.ACK.hub.ACCOUNT.JOBS_WORK.lab-work.1.41.7.1774699200000000000.3.token",
    "",
)
SOURCES: Final = (
    "17",
    "JOBS 17 a b",
    "JOBS:C=x7Yz 17 trellis.jobs.*.*.*.created\ftrellis.jobs.*.*.*.retried d e f",
)
HEADERS: Final = (
    headers.of_event(CONTEXT, "0123"),
    headers.of_event(CONTEXT, "0123") | {headers.EXPECTED_SEQUENCE: "0"},
    {headers.RUN_SEQUENCE: "17"},
    {"Status": "404"},
    None,
)
ATTEMPTS: Final = (FIRST, SECOND)
