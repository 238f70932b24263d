"""What a batch of the log does to the projection: pure, apart from the rows it is given."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from trellis_jobs.jetstream.log_feed import Place
from trellis_jobs.model import values
from trellis_jobs.model.events import AttemptEvent, Begun, Event
from trellis_jobs.model.job import Entry, Ignored, Job, reduce
from trellis_jobs.model.presence import WorkerHeartbeat
from trellis_jobs.model.redaction import redacted
from trellis_jobs.model.reducer import NOTES
from trellis_jobs.wire import log as wire
from trellis_jobs.wire.events import Undecodable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trellis_jobs.jetstream.log_feed import LogMessage
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.json_values import Json
    from trellis_jobs.model.notes import LogLine

Reading = Entry | WorkerHeartbeat | Undecodable

_EXCERPT: Final = 200
_MINUTE_NS: Final = 60 * 10**9


@dataclass(slots=True)
class JobRow:
    """A job as the projection has it: its log lines are rows of their own.

    `number` is the sequence of its first event; `last_stored_at` when the server stored the newest,
    in microseconds; `written` the job as its row in the file is, None before there is one.
    """

    number: int
    job: Job
    last_sequence: int
    last_stored_at: int
    lines: int = 0
    written: Job | None = None


@dataclass(frozen=True, slots=True)
class NumberedLine:
    job: int
    number: int
    run: int
    line: LogLine


@dataclass(frozen=True, slots=True)
class Sighted:
    """A heartbeat, and when the server stored it."""

    beat: WorkerHeartbeat
    stored_ns: int


@dataclass(frozen=True, slots=True)
class Aside:
    """A message that is no event, kept for people to look at."""

    sequence: int
    subject: str
    reason: str
    excerpt: str


@dataclass(slots=True)
class Changes:
    """`begun` has what may be shown of the payload of each run that began, by its job's number.

    `activity` counts events by minute, service, type and kind.
    """

    place: Place
    jobs: dict[JobAddress, JobRow] = field(default_factory=dict)
    begun: list[tuple[int, Json]] = field(default_factory=list)
    lines: list[NumberedLine] = field(default_factory=list)
    presence: dict[tuple[str, str, str], Sighted] = field(default_factory=dict)
    ignored: list[tuple[int, Event, str]] = field(default_factory=list)
    aside: list[Aside] = field(default_factory=list)
    activity: Counter[tuple[int, str, str, str]] = field(default_factory=Counter)


def read(messages: Sequence[LogMessage]) -> list[tuple[LogMessage, Reading]]:
    return [(m, wire.read(m.subject, m.sequence, m.data, m.headers)) for m in messages]


def addresses(readings: Sequence[tuple[LogMessage, Reading]]) -> set[JobAddress]:
    """The jobs whose rows a batch needs."""
    return {reading.event.job for _, reading in readings if isinstance(reading, Entry)}


def project(
    readings: Sequence[tuple[LogMessage, Reading]], rows: Mapping[JobAddress, JobRow]
) -> Changes:
    """`rows`: of the jobs in the batch those that exist; they are changed in place."""
    last = readings[-1][0]
    changes = Changes(Place(last.sequence, last.stored_ns))
    for message, reading in readings:
        match reading:
            case Entry():
                _project_event(message, reading, rows, changes)
            case WorkerHeartbeat():
                worker = (reading.service, reading.job_type, reading.instance)
                changes.presence[worker] = Sighted(reading, message.stored_ns)
            case Undecodable():
                excerpt = message.data[:_EXCERPT].decode("utf-8", "replace")
                changes.aside.append(
                    Aside(message.sequence, message.subject, reading.reason, excerpt)
                )
    return changes


def refold(messages: Sequence[LogMessage], place: Place) -> Changes:
    """What is left of jobs whose rows are gone; what happened was counted when it was new."""
    if not messages:
        return Changes(place)
    return replace(project(read(messages), {}), place=place, activity=Counter())


def _project_event(
    message: LogMessage, entry: Entry, rows: Mapping[JobAddress, JobRow], changes: Changes
) -> None:
    address, stored_at = entry.event.job, message.stored_ns // 1000
    row = changes.jobs.get(address)
    if row is None:
        row = rows.get(address)
        if row is not None:
            changes.jobs[address] = row
    reduced = reduce(row.job if row else None, entry)
    if isinstance(reduced, Ignored):
        changes.ignored.append((entry.sequence, entry.event, reduced.reason))
    elif row is None:
        row = changes.jobs[address] = JobRow(entry.sequence, reduced.job, entry.sequence, stored_at)
        _note(row, message, entry.event, changes)
    else:
        row.job = reduced.job
        _note(row, message, entry.event, changes)
    if row is not None:
        row.last_sequence, row.last_stored_at = entry.sequence, stored_at


def _note(row: JobRow, message: LogMessage, event: Event, changes: Changes) -> None:
    """What an event that counted brought with it beside its job."""
    if isinstance(event, Begun):
        changes.begun.append((row.number, redacted(event.payload, event.secrets)))
    elif isinstance(event, AttemptEvent) and event.notes.lines:
        _number_lines(row, event.notes.lines, changes)
    if event.kind not in NOTES:
        minute, address = message.stored_ns // _MINUTE_NS, event.job
        changes.activity[minute, address.service, address.job_type, event.kind.value] += 1


def _number_lines(row: JobRow, lines: tuple[LogLine, ...], changes: Changes) -> None:
    run = row.job.standing.run
    for line in lines:
        row.lines += 1
        changes.lines.append(NumberedLine(row.number, row.lines, run, line))
    without = values.replace(row.job.run, logs=())
    row.job = values.replace(row.job, run=without)
