"""A job's log and its explanation as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from trellis_jobs.model.job import Entry, Ignored, reduce
from trellis_jobs.wire import log as wire
from trellis_jobs.wire.event_redaction import redact
from trellis_jobs.wire.events import Undecodable
from trellis_jobs.wire.fields import add_present, is_too_deep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobs_admin.explain.explanation import Explanation
    from trellis_jobs.jetstream.log.feed import LogMessage
    from trellis_jobs.model.job import Job


def log_json(stored: Sequence[LogMessage]) -> list[dict[str, Any]]:
    """List all messages with the state after each; `event` has no secrets."""
    job: Job | None = None
    entries = []
    for message in stored:
        entry, read = message_json(message)
        if isinstance(read, Entry):
            reduced = reduce(job, read)
            job = reduced.job
            if isinstance(reduced, Ignored):
                entry["ignored"] = reduced.reason
            else:
                entry["state"] = reduced.job.state
        entries.append(entry)
    return entries


def message_json(message: LogMessage) -> tuple[dict[str, Any], Entry | Undecodable]:
    """Convert one message, and return the event that was decoded from it."""
    body: dict[str, Any] = {
        "seq": message.sequence,
        "subject": message.subject,
        "storedAt": message.stored_at,
    }
    read = wire.read(message.subject, message.sequence, message.data, message.headers)
    if isinstance(read, Entry):
        body["event"] = redact(_without_deep_values(message.data))
        return body, read
    if not isinstance(read, Undecodable):
        read = Undecodable(message.sequence, "a worker's heartbeat, not an event of a job")
    return {**body, "undecodable": read.reason}, read


def _without_deep_values(event: bytes) -> dict[str, Any]:
    """Drop values that are nested too deeply for a reply; our own events have none."""
    body = orjson.loads(event)
    return {name: value for name, value in body.items() if not is_too_deep(value)}


def explanation_json(job: Job, explanation: Explanation) -> dict[str, Any]:
    body: dict[str, Any] = {
        "id": job.id,
        "service": job.address.service,
        "type": job.address.job_type,
        "state": job.state,
        "tries": job.tries,
        "maxTries": job.max_tries,
        "because": explanation.because,
        "sentence": explanation.sentence,
        "next": explanation.next,
        "details": {
            name: value for name, value in explanation.details.items() if value is not None
        },
    }
    add_present(body, since=explanation.since, until=explanation.until, deadline=job.deadline)
    return body
