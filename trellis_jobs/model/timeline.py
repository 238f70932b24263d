"""A job's timeline: its events, and what it did or waited for between them.

All times are those at which the server stored the events. That is one clock, in log order, whereas
the timestamps in the events come from the clocks of many machines.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from trellis_jobs.model import events as e
from trellis_jobs.model.job import Entry, Ignored, Job, reduce
from trellis_jobs.model.job_errors import Interruption
from trellis_jobs.model.reducer import NOTES
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

INTERRUPTIONS: Final = frozenset(
    {
        Interruption.SHUTDOWN,
        Interruption.WORKER_DEATH,
        Interruption.VISIBILITY_TIMEOUT,
        Interruption.LEASE_OVER,
        Interruption.OTHER_CONTRACT,
    }
)


class Phase(StrEnum):
    """WAITING: a job with a key waits for its key or a worker; the log does not show which."""

    WAITING_FOR_WORKER = "waiting-for-worker"
    WAITING_FOR_KEY = "waiting-for-key"
    WAITING = "waiting"
    BACKING_OFF = "backing-off"
    SNOOZED = "snoozed"
    DELAYED = "delayed"
    RUNNING = "running"
    OVER = "over"


class LogRecord(Value, frozen=True):
    """A stored message under a job's subjects. `read` is its entry, or why it is not an event."""

    sequence: int
    stored_at: datetime
    read: Entry | str


class TimelineEntry(Value, frozen=True):
    """A log record and the job after it. `ignored`: why the record did not change the job."""

    record: LogRecord
    job: Job | None
    ignored: str | None = None

    @property
    def at(self) -> datetime:
        return self.record.stored_at

    @property
    def event(self) -> e.Event | None:
        return self.record.read.event if isinstance(self.record.read, Entry) else None


class TimelineSpan(Value, frozen=True):
    """The time between two events. `end` is None while it lasts; `until` is when the job is due.

    `interrupted_by`: the type of the error if the runtime, not the handler, ended the attempt.
    """

    phase: Phase
    begin: datetime
    end: datetime | None
    until: datetime | None = None
    interrupted_by: str | None = None

    def length(self, now: datetime) -> timedelta:
        return max(timedelta(), (self.end or now) - self.begin)


class _StateChange(Value, frozen=True):
    """An event that changed the job's state or began a run."""

    at: datetime
    event: e.Event
    job: Job


def replay(history: Iterable[LogRecord]) -> list[TimelineEntry]:
    """Apply the records of a history in order; each entry has the job after its record."""
    job: Job | None = None
    entries = []
    for record in history:
        entries.append(apply(job, record))
        job = entries[-1].job
    return entries


def apply(job: Job | None, record: LogRecord) -> TimelineEntry:
    if isinstance(record.read, str):
        return TimelineEntry(record, job, record.read)
    reduced = reduce(job, record.read)
    if isinstance(reduced, Ignored):
        return TimelineEntry(record, job, reduced.reason)
    return TimelineEntry(record, reduced.job)


def job_at(history: Iterable[LogRecord], moment: datetime) -> Job | None:
    """The job as of `moment`, computed from the records that the server had stored by then."""
    entries = replay(record for record in history if record.stored_at <= moment)
    return entries[-1].job if entries else None


def timeline(history: Iterable[LogRecord], now: datetime) -> list[TimelineEntry | TimelineSpan]:
    """Entries in log order, with a span before each state change, after the notes within it."""
    parts: list[TimelineEntry | TimelineSpan] = []
    before: _StateChange | None = None
    for entry in replay(history):
        change = _state_change(entry)
        if before is not None and change is not None:
            parts.extend(_spans_between(before, change, now))
        before = change or before
        parts.append(entry)
    if before is not None and not before.job.is_over:
        parts.extend(_spans_between(before, None, now))
    return parts


def _state_change(entry: TimelineEntry) -> _StateChange | None:
    if entry.ignored is not None or entry.event is None or entry.job is None:
        return None
    return None if entry.event.kind in NOTES else _StateChange(entry.at, entry.event, entry.job)


def _spans_between(
    before: _StateChange, then: _StateChange | None, now: datetime
) -> list[TimelineSpan]:
    end = then.at if then else None
    if before.job.is_over:
        return [TimelineSpan(Phase.OVER, before.at, end)]
    if before.job.state is JobState.ACTIVE:
        return [TimelineSpan(Phase.RUNNING, before.at, end, interrupted_by=_interruption(then))]
    if before.job.state is JobState.SCHEDULED:
        return [
            TimelineSpan(Phase.DELAYED, before.at, end, until=before.job.status.next_attempt_at)
        ]
    due = _due(before)
    if due is None:
        return _waiting(before.job, before.at, then)
    phase = Phase.SNOOZED if before.event.is_snooze else Phase.BACKING_OFF
    if due >= (end or now):
        return [TimelineSpan(phase, before.at, end, until=due)]
    return [
        TimelineSpan(phase, before.at, due, until=due),
        *_waiting(before.job, due, then),
    ]


def _due(before: _StateChange) -> datetime | None:
    """When the next try is due by the server's clock, which may differ from the worker's."""
    at = before.job.status.next_attempt_at
    if at is None or at <= before.event.at:
        return None
    try:
        return before.at + (at - before.event.at)
    except OverflowError:
        return at


def _interruption(then: _StateChange | None) -> str | None:
    match then.event if then else None:
        case e.RetryScheduled(error=error) | e.Dead(error=error) | e.Stale(error=error):
            return error.type if error.type in INTERRUPTIONS else None
        case _:
            return None


def _waiting(job: Job, begin: datetime, then: _StateChange | None) -> list[TimelineSpan]:
    """The wait for a key comes last, because a job starts as soon as it has its key."""
    end = then.at if then else None
    waited = then.event.waited_for_key if then and isinstance(then.event, e.Started) else None
    if end is None or waited is None:
        is_keyed = job.run.concurrency is not None
        return [TimelineSpan(Phase.WAITING if is_keyed else Phase.WAITING_FOR_WORKER, begin, end)]
    delivered = max(begin, end - waited)
    parts = (
        TimelineSpan(Phase.WAITING_FOR_WORKER, begin, delivered),
        TimelineSpan(Phase.WAITING_FOR_KEY, delivered, end),
    )
    return [part for part in parts if part.end != part.begin]
