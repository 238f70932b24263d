"""The entries of a tail of the log: one line for each message, without secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jobs_admin.api.views.tail import TailEntry, TailView
from jobs_admin.explain.event_words import event_name, event_words
from jobs_admin.explain.views import read_message
from trellis_jobs.model import subjects
from trellis_jobs.model.job import Entry
from trellis_jobs.model.subjects import LifecycleSubject

if TYPE_CHECKING:
    from trellis_jobs.jetstream.log.feed import LogMessage
    from trellis_jobs.jetstream.log.tail import TailSlice
    from trellis_jobs.model.events import Event

_MAX_WORDS: Final = 300


def tail_view(part: TailSlice) -> TailView:
    entries = tuple(entry for entry in map(_entry, part.messages) if entry is not None)
    return TailView(entries=entries, seq=part.position, skipped=part.skipped)


def _entry(message: LogMessage) -> TailEntry | None:
    """Return None for a message whose subject is not that of a job's event."""
    subject = subjects.parse(message.subject)
    if not isinstance(subject, LifecycleSubject):
        return None
    read = read_message(message)
    event = read.event if isinstance(read, Entry) else None
    return TailEntry(
        seq=message.sequence,
        stored_at=message.stored_at,
        service=subject.job.service,
        type=subject.job.job_type,
        id=subject.job.job_id,
        kind=subject.kind.value if event is None else event_name(event),
        words="" if event is None else _one_line(event),
        by=getattr(event, "by", None),
        undecodable=None if isinstance(read, Entry) else read.reason,
    )


def _one_line(event: Event) -> str:
    line = " ".join(event_words(event).split())
    return line if len(line) <= _MAX_WORDS else f"{line[:_MAX_WORDS]}…"
