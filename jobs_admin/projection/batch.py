"""Computes the changes that a batch of the log makes to the projection."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from jobs_admin.projection.durations import bucket_of, due_after, phase_ended
from jobs_admin.projection.operator_actions import operator_action
from trellis_jobs.jetstream.client.stored_message import moment_of
from trellis_jobs.jetstream.log.feed import LogPosition
from trellis_jobs.model import values
from trellis_jobs.model.events import AttemptEvent, Decided, Described, Event
from trellis_jobs.model.job import Entry, Ignored, Job, reduce
from trellis_jobs.model.presence import WorkerHeartbeat
from trellis_jobs.model.states import JobState
from trellis_jobs.wire import log as wire

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jobs_admin.api.views.audit import AuditVerb
    from trellis_jobs.jetstream.log.feed import LogMessage
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.notes import LogLine
    from trellis_jobs.wire.events import Undecodable

Columns = tuple[Any, ...]

_MINUTE: Final = 60 * 10**6
_SNOOZED: Final = "snoozed"
_RETRY: Final = JobState.RETRY


@dataclass(slots=True)
class JobRow:
    """A job in the projection, without its log lines, which are separate rows.

    `number` is the sequence of its first event; `last_stored_at` when the server stored the newest,
    in microseconds; `begun_at` when it stored the first, `moved_at` when it stored the newest that
    changed the status, and `due_at` when the next try of a job in retry is due, by its clock;
    `written` the first columns of its row in the file, None before there is one,
    and `size` how long its document there is.
    """

    number: int
    job: Job
    last_sequence: int
    last_stored_at: int
    begun_at: int
    moved_at: int
    due_at: int | None = None
    lines: int = 0
    written: Columns | None = None
    size: int = 0


@dataclass(frozen=True, slots=True)
class NumberedLine:
    job: int
    number: int
    run: int
    line: LogLine


@dataclass(frozen=True, slots=True)
class SeenWorker:
    """A heartbeat, and when the server stored it."""

    beat: WorkerHeartbeat
    stored_ns: int


@dataclass(frozen=True, slots=True)
class UndecodableRow:
    """A message that is not an event, kept so that operators can see it."""

    sequence: int
    subject: str
    reason: str
    size: int


@dataclass(frozen=True, slots=True)
class OperatorAction:
    """What an operator did to a job; `stored_at` is the server's time, in microseconds."""

    sequence: int
    stored_at: int
    verb: AuditVerb
    event: Described | Decided


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """What messages of the log say, up to a position; `events` by the job they are about."""

    position: LogPosition
    events: Mapping[JobAddress, Sequence[tuple[LogMessage, Entry]]]
    beats: Sequence[tuple[LogMessage, WorkerHeartbeat]]
    undecodable: Sequence[tuple[LogMessage, Undecodable]]


@dataclass(slots=True)
class Changes:
    """`begun` has each job when a run of it began, by its number.

    `activity` counts events by minute, service, type and kind. Snoozes are not counted as `retry`,
    which is the kind of their events, but as `snoozed`. `moves` counts changes of the state by
    minute, service, type, and the states before and after; `durations` the waits and runs that
    ended, by minute, service, type, phase and bucket. `actions` are the events of operators.
    """

    position: LogPosition
    jobs: dict[JobAddress, JobRow] = field(default_factory=dict)
    begun: list[tuple[int, Job]] = field(default_factory=list)
    lines: list[NumberedLine] = field(default_factory=list)
    presence: dict[tuple[str, str, str], SeenWorker] = field(default_factory=dict)
    ignored: list[tuple[int, Event, str]] = field(default_factory=list)
    aside: list[UndecodableRow] = field(default_factory=list)
    activity: Counter[tuple[int, str, str, str]] = field(default_factory=Counter)
    moves: Counter[tuple[int, str, str, JobState | None, JobState]] = field(default_factory=Counter)
    durations: Counter[tuple[int, str, str, str, int]] = field(default_factory=Counter)
    actions: list[OperatorAction] = field(default_factory=list)


def read(messages: Sequence[LogMessage]) -> DecodedBatch:
    """Decode a batch of at least one message."""
    events: defaultdict[JobAddress, list[tuple[LogMessage, Entry]]] = defaultdict(list)
    beats, undecodable = [], []
    for message in messages:
        read = wire.read(message.subject, message.sequence, message.data, message.reply_headers)
        if isinstance(read, Entry):
            events[read.event.job].append((message, read))
        elif isinstance(read, WorkerHeartbeat):
            beats.append((message, read))
        else:
            undecodable.append((message, read))
    last = messages[-1]
    return DecodedBatch(LogPosition(last.sequence, last.stored_ns), events, beats, undecodable)


def project(readings: DecodedBatch, rows: Mapping[JobAddress, JobRow]) -> Changes:
    """`rows` are those of the batch's jobs that exist; they are changed in place."""
    changes = Changes(readings.position)
    for address, events in readings.events.items():
        row = _project_job(events, rows.get(address), changes)
        if row is not None:
            changes.jobs[address] = row
    for message, beat in readings.beats:
        worker = (beat.service, beat.job_type, beat.instance)
        changes.presence[worker] = SeenWorker(beat, message.stored_ns)
    for message, read in readings.undecodable:
        changes.aside.append(
            UndecodableRow(message.sequence, message.subject, read.reason, len(message.data))
        )
    return changes


def refold(messages: Sequence[LogMessage], position: LogPosition) -> Changes:
    """Rebuild rows from what remains of jobs in the log, without counting their events again."""
    if not messages:
        return Changes(position)
    again = project(read(messages), {})
    return replace(
        again, position=position, activity=Counter(), moves=Counter(), durations=Counter()
    )


def _project_job(
    events: Iterable[tuple[LogMessage, Entry]], row: JobRow | None, changes: Changes
) -> JobRow | None:
    """Return None while the job does not exist."""
    for message, entry in events:
        before, stored_at = row.job if row else None, message.stored_ns // 1000
        reduced = reduce(before, entry)
        if isinstance(reduced, Ignored):
            changes.ignored.append((entry.sequence, entry.event, reduced.reason))
        elif row is None:
            row = JobRow(
                entry.sequence, reduced.job, entry.sequence, stored_at, stored_at, stored_at
            )
        else:
            row.job = reduced.job
        if row is not None:
            row.last_sequence, row.last_stored_at = entry.sequence, stored_at
            if row.job is not before:
                _note(row, entry.event, changes)
                _note_operator(entry, row, stored_at, changes)
            # An event that is only a note leaves the job where it stands.
            if before is None or row.job.status is not before.status:
                _count(row, before, entry.event, stored_at, changes)
    return row


def _note(row: JobRow, event: Event, changes: Changes) -> None:
    """Collect the payload or the log lines of an event that was applied."""
    if isinstance(event, Described):
        changes.begun.append((row.number, row.job))
    elif isinstance(event, AttemptEvent) and event.notes.lines:
        _number_lines(row, event.notes.lines, changes)


def _note_operator(entry: Entry, row: JobRow, stored_at: int, changes: Changes) -> None:
    event = entry.event
    if isinstance(event, (Described, Decided)):
        is_first = entry.sequence == row.number
        verb = operator_action(event, moment_of(stored_at * 1000), is_first=is_first)
        if verb is not None:
            changes.actions.append(OperatorAction(entry.sequence, stored_at, verb, event))


def _count(row: JobRow, before: Job | None, event: Event, stored_at: int, changes: Changes) -> None:
    """Count an event that changed the job's status, and what it ended."""
    minute, service, job_type = stored_at // _MINUTE, event.job.service, event.job.job_type
    kind = _SNOOZED if event.is_snooze else event.kind
    changes.activity[minute, service, job_type, kind] += 1
    earlier, state = before.status.state if before else None, row.job.status.state
    if earlier is not state:
        changes.moves[minute, service, job_type, earlier, state] += 1
        phase = phase_ended(earlier, state)
        if phase is not None:
            took = stored_at - (row.due_at or row.moved_at)
            changes.durations[minute, service, job_type, phase, bucket_of(took)] += 1
    row.moved_at = stored_at
    row.due_at = due_after(row.job.status, event, stored_at) if state is _RETRY else None


def _number_lines(row: JobRow, lines: tuple[LogLine, ...], changes: Changes) -> None:
    run = row.job.status.run
    for line in lines:
        row.lines += 1
        changes.lines.append(NumberedLine(row.number, row.lines, run, line))
    without = values.replace(row.job.run, logs=())
    row.job = values.replace(row.job, run=without)
