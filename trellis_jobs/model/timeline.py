"""A job's history as a story: its events, and what it did or waited for between them.

All moments are those at which the server stored the events: one clock, in the order of the log,
whereas the events themselves were written by the clocks of many machines.
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
    """WAITING: of a job with a key, when the log does not tell for which of the two."""

    WAITING_FOR_WORKER = "waiting-for-worker"
    WAITING_FOR_KEY = "waiting-for-key"
    WAITING = "waiting"
    BACKING_OFF = "backing-off"
    RUNNING = "running"
    OVER = "over"


class LogRecord(Value, frozen=True):
    """A message under a job's subjects: the event in it, or why it is none."""

    sequence: int
    stored_at: datetime
    read: Entry | str


class TimelineEntry(Value, frozen=True):
    """`job` as it stands afterwards; `ignored` says why the message changed nothing."""

    recorded: LogRecord
    job: Job | None
    ignored: str | None = None

    @property
    def at(self) -> datetime:
        return self.recorded.stored_at

    @property
    def event(self) -> e.Event | None:
        return self.recorded.read.event if isinstance(self.recorded.read, Entry) else None


class TimelineSpan(Value, frozen=True):
    """What lay between two events. No `end`: it lasts. `until`: when the next try was due.

    `interrupted_by`: the word of the log for what cut a run short that did nothing wrong.
    """

    phase: Phase
    begin: datetime
    end: datetime | None
    until: datetime | None = None
    interrupted_by: str | None = None

    def length(self, now: datetime) -> timedelta:
        return max(timedelta(), (self.end or now) - self.begin)


class _Moved(Value, frozen=True):
    """An event that moved its job, or began a run of it."""

    at: datetime
    event: e.Event
    job: Job


def replay(history: Iterable[LogRecord]) -> list[TimelineEntry]:
    """Each message with what it did to the job, by the one reducer."""
    job: Job | None = None
    told = []
    for recorded in history:
        told.append(apply(job, recorded))
        job = told[-1].job
    return told


def apply(job: Job | None, recorded: LogRecord) -> TimelineEntry:
    if isinstance(recorded.read, str):
        return TimelineEntry(recorded, job, recorded.read)
    reduced = reduce(job, recorded.read)
    if isinstance(reduced, Ignored):
        return TimelineEntry(recorded, job, reduced.reason)
    return TimelineEntry(recorded, reduced.job)


def job_at(history: Iterable[LogRecord], moment: datetime) -> Job | None:
    """The job as it was then: folded from what the server had stored by that time."""
    told = replay(recorded for recorded in history if recorded.stored_at <= moment)
    return told[-1].job if told else None


def timeline(history: Iterable[LogRecord], now: datetime) -> list[TimelineEntry | TimelineSpan]:
    """What lay between two moves of the job stands before the second, after any notes of it."""
    told: list[TimelineEntry | TimelineSpan] = []
    before: _Moved | None = None
    for each in replay(history):
        moved = _move_in(each)
        if before is not None and moved is not None:
            told.extend(_between(before, moved, now))
        before = moved or before
        told.append(each)
    if before is not None and not before.job.is_over:
        told.extend(_between(before, None, now))
    return told


def _move_in(each: TimelineEntry) -> _Moved | None:
    if each.ignored is not None or each.event is None or each.job is None:
        return None
    return None if each.event.kind in NOTES else _Moved(each.at, each.event, each.job)


def _between(before: _Moved, then: _Moved | None, now: datetime) -> list[TimelineSpan]:
    end = then.at if then else None
    if before.job.is_over:
        return [TimelineSpan(Phase.OVER, before.at, end)]
    if before.job.state is JobState.ACTIVE:
        return [TimelineSpan(Phase.RUNNING, before.at, end, interrupted_by=_interruption(then))]
    due = _due(before)
    if due is None:
        return _waiting(before.job, before.at, then)
    if due >= (end or now):
        return [TimelineSpan(Phase.BACKING_OFF, before.at, end, until=due)]
    return [
        TimelineSpan(Phase.BACKING_OFF, before.at, due, until=due),
        *_waiting(before.job, due, then),
    ]


def _due(before: _Moved) -> datetime | None:
    """When the next try is due, on the server's clock: the worker's may be another."""
    at = before.job.status.next_attempt_at
    if at is None or at <= before.event.at:
        return None
    try:
        return before.at + (at - before.event.at)
    except OverflowError:
        return at


def _interruption(then: _Moved | None) -> str | None:
    match then.event if then else None:
        case e.RetryScheduled(error=error) | e.Dead(error=error) | e.Stale(error=error):
            return error.type if error.type in INTERRUPTIONS else None
        case _:
            return None


def _waiting(job: Job, begin: datetime, then: _Moved | None) -> list[TimelineSpan]:
    """A delivery that waits for its key does so last: whoever gets the key starts at once."""
    end = then.at if then else None
    waited = then.event.waited_for_key if then and isinstance(then.event, e.Started) else None
    if end is None or waited is None:
        is_keyed = job.run.concurrency is not None
        return [TimelineSpan(Phase.WAITING if is_keyed else Phase.WAITING_FOR_WORKER, begin, end)]
    came = max(begin, end - waited)
    parts = (
        TimelineSpan(Phase.WAITING_FOR_WORKER, begin, came),
        TimelineSpan(Phase.WAITING_FOR_KEY, came, end),
    )
    return [part for part in parts if part.end != part.begin]
