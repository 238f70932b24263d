"""Log entries as records of a job's history, which the reducer and the timeline take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

from trellis_jobs.model.job import Entry
from trellis_jobs.model.timeline import LogRecord
from trellis_jobs.wire import log as wire
from trellis_jobs.wire.events import Undecodable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobs_admin.api.views.jobs import LogEntry
    from trellis_jobs.jetstream.log.feed import LogMessage

TOO_LARGE: Final = "too large for a reply of the admin runtime; only the log contains it"


def recorded(entries: Sequence[LogEntry]) -> list[LogRecord]:
    return [_recorded(entry) for entry in entries]


def recorded_message(message: LogMessage) -> LogRecord:
    read = wire.read(message.subject, message.sequence, message.data, message.headers)
    return LogRecord(message.sequence, message.stored_at, _event_or_why(read))


def _recorded(entry: LogEntry) -> LogRecord:
    """Decode the event again; the admin runtime has already accepted it."""
    if entry.event is None:
        return LogRecord(entry.seq, entry.stored_at, entry.undecodable or TOO_LARGE)
    read = wire.read(entry.subject, entry.seq, orjson.dumps(entry.event), None)
    return LogRecord(entry.seq, entry.stored_at, _event_or_why(read))


def _event_or_why(read: object) -> Entry | str:
    match read:
        case Entry():
            return read
        case Undecodable(reason=reason):
            return reason
        case _:
            return "a worker's heartbeat, not an event of a job"
