"""Writes histories of jobs into a log, as workers, operators and strangers would."""

from __future__ import annotations

from typing import Any

from tests.given import CONTEXT, FIRST, created, error, notes, retry_scheduled, started
from tests.support.lab import Probe
from trellis_jobs.environment import utc_now
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.model.concurrency import Concurrency
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.notes import Progress
from trellis_jobs.model.values import replace
from trellis_jobs.wire import events as wire

# Closes an attribute, an element and a script, if the page forgets to escape it.
HOSTILE = """'"><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7777 * 7777 }}"""


async def write(raw: Probe, job: JobAddress, *history: e.Event) -> Head:
    """Append legal events of a job, at the present time."""
    head: Head | None = None
    for event in history:
        appended = await raw.events.try_append(head, replace(event, job=job, at=utc_now()))
        assert isinstance(appended, Head), appended
        head = appended
    assert head is not None
    return head


async def note_often(raw: Probe, head: Head, note: e.Event, count: int) -> None:
    """Publish a note many times. Each is stored, and the last one is confirmed."""
    subject = subjects.lifecycle(note.job, note.kind)
    data = wire.encode(note, head.status, None)
    for _ in range(count - 1):
        await raw.connection.publish(subject, data)
    await raw.connection.request(subject, data)


async def write_rubbish(raw: Probe, job: JobAddress, kind: EventKind, data: bytes = b"{") -> None:
    await raw.connection.request(subjects.lifecycle(job, kind), data)


def path_of(job: JobAddress) -> str:
    return f"/jobs/{job.service}/{job.job_type}/{job.job_id}"


def hostile_history() -> tuple[e.Event, ...]:
    """Every text that a service can choose has markup in it; instances and hashes cannot."""
    held = Concurrency(key=HOSTILE, key_hash="f13b")
    said = notes(HOSTILE, progress=Progress(step=HOSTILE, message=HOSTILE, current=1, total=2))
    why = error(type=HOSTILE, message=HOSTILE, traceback=HOSTILE)
    return (
        created(
            payload={HOSTILE: HOSTILE},
            schedule=HOSTILE,
            concurrency=held,
            by=HOSTILE,
            reason=HOSTILE,
        ),
        started(app_version=HOSTILE, concurrency=held),
        e.Logged(**_fields(), attempt=FIRST, notes=said),
        retry_scheduled(error=why, next_attempt_at=None),
        started(tries=2, app_version=HOSTILE),
        e.Completed(**(_fields() | {"tries": 2}), attempt=FIRST, result={HOSTILE: [HOSTILE]}),
    )


def _fields() -> dict[str, Any]:
    return {"job": created().job, "context": CONTEXT, "at": utc_now(), "tries": 1}
