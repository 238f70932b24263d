"""A job's log as its screens need it: replayed, with what the job did between its events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.api.inputs import MAX_PAGE_SIZE
from jobs_admin.explain.log_records import recorded
from trellis_jobs.model import events as e
from trellis_jobs.model.reducer import NOTES
from trellis_jobs.model.timeline import TimelineEntry, TimelineSpan, timeline

if TYPE_CHECKING:
    from datetime import datetime

    from jobs_admin.api.views.jobs import LogEntry
    from jobs_admin.console.job.job_reads import JobReads
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.job import Job

# Beyond this number of state changes the oldest ones are shown, and a note says so.
MAX_CHANGES: Final = 2_000


@dataclass(frozen=True, slots=True)
class LogPart:
    """Entries of a job's log as the admin runtime sent them.

    `count` is the number of all messages of the job, and `changes` that of its state changes.
    `is_whole`: these are all messages; otherwise they are only the oldest state changes.
    """

    entries: tuple[LogEntry, ...]
    count: int
    changes: int
    is_whole: bool

    @property
    def is_cut(self) -> bool:
        """There are more state changes, so this does not say what the job is now."""
        return not self.is_whole and len(self.entries) < self.changes


@dataclass(frozen=True, slots=True)
class RunSpan:
    """What the job did or waited for in a run. `run` counts from 1.

    `started` is the event that began the attempt, if the job ran. `sequence` is that of the event
    at its beginning.
    """

    run: int
    span: TimelineSpan
    started: e.Started | None
    sequence: int


@dataclass(frozen=True, slots=True)
class JobLog:
    """`history` has every entry with the job after it, and `spans` the time between them."""

    part: LogPart
    history: tuple[TimelineEntry, ...]
    spans: tuple[RunSpan, ...]

    @property
    def job(self) -> Job | None:
        """The newest state. None if no message is an event that counts."""
        return self.history[-1].job if self.history else None

    @property
    def note_count(self) -> int:
        if self.part.is_whole:
            return sum(is_note(entry) for entry in self.history)
        return self.part.count - self.part.changes

    def index_at(self, sequence: int | None) -> int:
        """The position in `history` of the newest event up to a sequence; 0 if all are later."""
        if sequence is None:
            return len(self.history) - 1
        earlier = sum(entry.record.sequence <= sequence for entry in self.history)
        return max(0, earlier - 1)


def is_note(entry: TimelineEntry) -> bool:
    return entry.event is not None and entry.event.kind in NOTES


async def read_log(reads: JobReads, job: JobAddress, *, min_seq: int = 0) -> LogPart:
    """Read all messages of a job, or only its state changes if it has very many."""
    begin = await reads.list_events(job, limit=MAX_PAGE_SIZE, min_seq=min_seq)
    if begin.count <= len(begin.entries):
        return LogPart(begin.entries, begin.count, begin.count, is_whole=True)
    changes = await reads.list_events(job, notes=False, limit=MAX_PAGE_SIZE)
    entries = changes.entries
    while len(entries) < min(changes.count, MAX_CHANGES):
        after = entries[-1].seq
        more = await reads.list_events(job, notes=False, after_seq=after, limit=MAX_PAGE_SIZE)
        if not more.entries:
            break
        entries += more.entries
    return LogPart(entries, begin.count, changes.count, is_whole=False)


async def read_all(reads: JobReads, job: JobAddress) -> tuple[LogEntry, ...]:
    """Read every message of a job, however many there are."""
    entries: tuple[LogEntry, ...] = ()
    while True:
        after = entries[-1].seq if entries else 0
        page = await reads.list_events(job, after_seq=after, limit=MAX_PAGE_SIZE)
        entries += page.entries
        if not page.entries or page.count <= len(page.entries):
            return entries


def replay_log(part: LogPart, now: datetime) -> JobLog:
    history: list[TimelineEntry] = []
    spans: list[RunSpan] = []
    change: TimelineEntry | None = None
    for each in timeline(recorded(part.entries), now):
        if isinstance(each, TimelineSpan):
            if change is not None:
                spans.append(_run_span(each, change))
            continue
        history.append(each)
        if each.ignored is None and not is_note(each):
            change = each
    return JobLog(part, tuple(history), tuple(spans))


def _run_span(span: TimelineSpan, change: TimelineEntry) -> RunSpan:
    started = change.event if isinstance(change.event, e.Started) else None
    return RunSpan(run_number(change.job), span, started, change.record.sequence)


def run_number(job: Job | None) -> int:
    return 1 if job is None else len(job.earlier_runs) + 1
