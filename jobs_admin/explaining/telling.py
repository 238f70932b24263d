"""A job's log and its explanation as JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from trellis_jobs.model.job import Entry, Ignored, reduce
from trellis_jobs.wire import log as wire
from trellis_jobs.wire.events import Undecodable
from trellis_jobs.wire.fields import add_present

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobs_admin.explaining.explanation import Explanation
    from trellis_jobs.jetstream.log_feed import LogMessage
    from trellis_jobs.model.job import Job


def told_log(stored: Sequence[LogMessage]) -> list[dict[str, Any]]:
    """Every message with its sequence; `event` is as it was written, `ignored` why not counted."""
    job: Job | None = None
    told = []
    for message in stored:
        entry: dict[str, Any] = {
            "seq": message.sequence,
            "subject": message.subject,
            "storedAt": datetime.fromtimestamp(message.stored_ns / 1e9, UTC),
        }
        read = wire.read(message.subject, message.sequence, message.data, message.headers)
        if isinstance(read, Entry):
            entry["event"] = orjson.loads(message.data)
            reduced = reduce(job, read)
            job = reduced.job
            if isinstance(reduced, Ignored):
                entry["ignored"] = reduced.reason
            else:
                entry["state"] = reduced.job.state
        elif isinstance(read, Undecodable):
            entry["undecodable"] = read.reason
        told.append(entry)
    return told


def told_explanation(job: Job, explanation: Explanation) -> dict[str, Any]:
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
