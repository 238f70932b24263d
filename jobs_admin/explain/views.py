"""The views of a job's log and of its explanation."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson

from jobs_admin.api.views.jobs import ExplanationView, JobSecrets, LogEntry
from trellis_jobs.model.job import Entry, Ignored, reduce
from trellis_jobs.model.timeline import LogRecord
from trellis_jobs.wire import log as wire
from trellis_jobs.wire.event_redaction import redact
from trellis_jobs.wire.events import Undecodable
from trellis_jobs.wire.fields import is_too_deep

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobs_admin.explain.explanation import Explanation
    from trellis_jobs.jetstream.log.feed import LogMessage
    from trellis_jobs.model.job import Job


def log_entries(
    stored: Sequence[LogMessage],
    before: Sequence[LogMessage] = (),
    *,
    offset: int = 0,
    limit: int | None = None,
) -> list[LogEntry]:
    """List messages with the state after each; `event` has no secrets.

    `before` are the earlier messages that changed the job's state.
    """
    begin = len(before) + offset
    end = None if limit is None else begin + limit
    shown = islice(_with_effects([*before, *stored]), begin, end)
    return [log_entry(message, read, **effect) for message, read, effect in shown]


def _with_effects(
    stored: Sequence[LogMessage],
) -> Iterator[tuple[LogMessage, Entry | Undecodable, dict[str, Any]]]:
    """Read each message, and say what its event does to the job."""
    job: Job | None = None
    for message in stored:
        read = read_message(message)
        effect: dict[str, Any] = {}
        if isinstance(read, Entry):
            reduced = reduce(job, read)
            job = reduced.job
            if isinstance(reduced, Ignored):
                effect["ignored"] = reduced.reason
            else:
                effect["state"] = reduced.job.state
        yield message, read, effect


def read_message(message: LogMessage) -> Entry | Undecodable:
    read = wire.read(message.subject, message.sequence, message.data, message.headers)
    if isinstance(read, Entry | Undecodable):
        return read
    return Undecodable(message.sequence, "a worker's heartbeat, not an event of a job")


def log_record(message: LogMessage) -> LogRecord:
    """A message as timelines take it."""
    read = read_message(message)
    return LogRecord(
        message.sequence, message.stored_at, read if isinstance(read, Entry) else read.reason
    )


def log_entry(message: LogMessage, read: Entry | Undecodable, **effect: Any) -> LogEntry:
    if isinstance(read, Entry):
        effect["event"] = redact(_without_deep_values(message.data))
    else:
        effect["undecodable"] = read.reason
    return LogEntry(
        seq=message.sequence, subject=message.subject, stored_at=message.stored_at, **effect
    )


def _without_deep_values(event: bytes) -> dict[str, Any]:
    """Drop values that are nested too deeply for a reply; our own events have none."""
    body: dict[str, Any] = orjson.loads(event)
    if not is_too_deep(body):
        return body
    return {name: value for name, value in body.items() if not is_too_deep(value)}


def explanation_view(job: Job, explanation: Explanation) -> ExplanationView:
    return ExplanationView(
        id=job.id,
        service=job.address.service,
        type=job.address.job_type,
        state=job.state,
        tries=job.tries,
        max_tries=job.max_tries,
        because=explanation.because,
        sentence=explanation.sentence,
        next=explanation.next,
        since=explanation.since,
        until=explanation.until,
        deadline=job.deadline,
        details={name: value for name, value in explanation.details.items() if value is not None},
    )


def job_secrets(job: Job) -> JobSecrets:
    """Without validation: a payload may have a megabyte, and was decoded just now."""
    return JobSecrets.model_construct(
        id=job.id,
        service=job.address.service,
        type=job.address.job_type,
        payload=job.payload,
        result=job.result,
    )
