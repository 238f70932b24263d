"""Jobs ⇄ rows: the columns that lists are filtered by, and the whole job as JSON."""

from __future__ import annotations

import hashlib
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import orjson

from jobs_admin.projection.batch import JobRow
from jobs_admin.projection.error_patterns import read_pattern
from trellis_jobs.model.job import LOGS_KEPT
from trellis_jobs.model.presence import in_milliseconds
from trellis_jobs.model.redaction import redacted
from trellis_jobs.model.states import JobState
from trellis_jobs.wire import job_errors, jobs
from trellis_jobs.wire.fields import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jobs_admin.api.job_filter import Scalar
    from jobs_admin.projection.batch import Changes, Columns
    from trellis_jobs.model.job import Job
    from trellis_jobs.model.job_errors import JobError
    from trellis_jobs.model.json_values import Json


COLUMNS: Final = (
    "job",
    "service",
    "type",
    "id",
    "state",
    "tries",
    "max_tries",
    "created_at",
    "updated_at",
    "started_at",
    "ended_at",
    "deadline",
    "next_attempt_at",
    "instance",
    "key",
    "key_hash",
    "error",
    "error_values",
    "app_version",
    "cause",
    "last_sequence",
    "last_stored_at",
    "begun_at",
    "moved_at",
    "span",
    "due_at",
    "lines",
    "document",
)

_COUNTED: Final = COLUMNS.index("cause") + 1
# The states in which jobs are grouped by their errors.
GROUPED: Final = (JobState.FAILED, JobState.RETRY, JobState.DEAD)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MINUTE: Final = timedelta(minutes=1)
MINUTES_AN_HOUR: Final = 60
MINUTES_A_DAY: Final = 24 * MINUTES_AN_HOUR
# The service and the type of rows with the sums over all queues.
ALL_QUEUES: Final = ("", "")
# The lengths of the slots in which state changes and durations are counted, in minutes.
CHANGE_SLOTS: Final = (1, MINUTES_AN_HOUR, MINUTES_A_DAY)
DURATION_SLOTS: Final = (MINUTES_AN_HOUR, MINUTES_A_DAY)
_DEEPEST_VALUE: Final = 4
_MAX_VALUES: Final = 32
_LONGEST_VALUE: Final = 200
_NUMBERS: Final = (int, float)


def minute(moment: datetime) -> int:
    """As activity is counted: whole minutes since 1970."""
    return (moment - _EPOCH) // _MINUTE


def moment_of_minute(of_minute: int) -> datetime:
    """When a minute begins."""
    return _EPOCH + of_minute * _MINUTE


def microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def optional_microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else microseconds(moment)


def moment_of(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def to_row(row: JobRow) -> Columns:
    """In the order of COLUMNS."""
    job, status, run = row.job, row.job.status, row.job.run
    held, error = run.concurrency, job.last_error
    folded = folded_error(error) if error else None
    values, cause = (0, 0)
    if _is_grouped(job):
        values, cause = _group(job.address.service, job.address.job_type, folded or "")
    return (
        row.number,
        job.address.service,
        job.address.job_type,
        job.address.job_id,
        status.state.value,
        status.tries,
        status.max_tries,
        microseconds(job.created_at),
        last_change(job),
        optional_microseconds(run.started_at),
        optional_microseconds(run.ended_at),
        optional_microseconds(status.deadline),
        optional_microseconds(status.next_attempt_at),
        status.owner.instance if status.owner else None,
        held.key if held else None,
        held.key_hash if held else None,
        folded,
        values,
        run.app_version,
        cause,
        row.last_sequence,
        row.last_stored_at,
        row.begun_at,
        row.moved_at,
        max(0, row.moved_at - row.begun_at).bit_length(),
        row.due_at,
        row.lines,
        dumps(jobs.to_json(job)).decode(),
    )


def last_change(job: Job) -> int:
    """Never before the creation, because the clocks of workers may be behind."""
    return microseconds(max(job.updated_at, job.created_at))


def folded_error(error: JobError) -> str:
    """The text that searches compare with, case-folded as they are."""
    return job_errors.text(error).casefold()


def _is_grouped(job: Job) -> bool:
    """Whether the last error put the job where it is. A snoozed job waits for another reason."""
    if job.state is JobState.DEAD:
        return True
    return job.state in GROUPED and job.last_error is not None and job.run.snoozed_until is None


@lru_cache(maxsize=1_000)
def _group(service: str, job_type: str, error: str) -> tuple[int, int]:
    """What the `*` of the error's pattern stand for; and a hash, never 0, of queue and pattern."""
    pattern, values = read_pattern(error)
    group = "\0".join((service, job_type, pattern)).encode(errors="replace")
    digest = hashlib.blake2b(group, digest_size=8).digest()
    return values.value, int.from_bytes(digest, signed=True) or 1


def group_id(cause: int) -> str:
    """The id of a group of jobs, for requests: their cause as hexadecimal digits."""
    return cause.to_bytes(8, signed=True).hex()


def cause_of(group: str) -> int:
    """What group_id() was made from."""
    return int.from_bytes(bytes.fromhex(group), signed=True)


def from_row(columns: Columns) -> JobRow:
    """What to_row() made."""
    number, *_, last_sequence, last_stored_at, begun_at, moved_at, _, due_at, lines, document = (
        columns
    )
    job = jobs.from_json(orjson.loads(document))
    return JobRow(
        number,
        job,
        last_sequence,
        last_stored_at,
        begun_at,
        moved_at,
        due_at,
        lines,
        written=counted(columns),
        size=len(document),
    )


def counted(columns: Columns) -> Columns:
    """As many of a row's columns as jobs are counted by."""
    return columns[:_COUNTED]


def payload_hashes(payload: Json) -> set[int]:
    """One for each scalar in the payload, down to a depth: `customer.id = 7` becomes a number."""
    found: list[tuple[str, Scalar]] = []
    _find_scalars(payload, "", 1, found)
    return {value_hash(path, value) for path, value in found}


@lru_cache(maxsize=10_000, typed=True)
def value_hash(path: str, value: Scalar) -> int:
    """Signed, as SQLite's integers are."""
    text = orjson.dumps([path, value])
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), signed=True)


def origin_hash(name: str, value: str) -> int:
    """Unlike that of any value of a payload, because this is an object and that is an array."""
    text = orjson.dumps({name: value})
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), signed=True)


def _origin_hashes(job: Job) -> Iterator[int]:
    """Where a job comes from: its request, its trace and its schedule."""
    yield origin_hash("requestId", job.context.request_id)
    yield origin_hash("traceId", job.context.trace_id)
    if job.run.schedule is not None:
        yield origin_hash("schedule", job.run.schedule)


def _find_scalars(value: Json, within: str, depth: int, found: list[tuple[str, Scalar]]) -> None:
    if not isinstance(value, dict):
        return
    for name, member in value.items():
        if len(found) >= _MAX_VALUES:
            return
        if isinstance(member, str):
            if len(member) <= _LONGEST_VALUE:
                found.append((within + name, member))
        elif isinstance(member, _NUMBERS):
            found.append((within + name, member))
        elif depth < _DEEPEST_VALUE:
            _find_scalars(member, f"{within}{name}.", depth + 1, found)


def value_rows(changes: Changes) -> list[tuple[int, int]]:
    """What the runs that began can be found by: values of their payloads, and their origins."""
    return [
        (value, number)
        for number, job in changes.begun
        for value in chain(
            payload_hashes(redacted(job.payload, job.run.secrets)), _origin_hashes(job)
        )
    ]


def line_rows(changes: Changes) -> list[tuple[int, int, int, int, str, str]]:
    return [
        (n.job, n.number, n.run, microseconds(n.line.at), n.line.level.value, n.line.message)
        for n in changes.lines
    ]


def outdated_lines(changes: Changes) -> list[tuple[int, int]]:
    newest = {numbered.job: numbered.number for numbered in changes.lines}
    return [(job, number - LOGS_KEPT) for job, number in newest.items() if number > LOGS_KEPT]


def presence_rows(changes: Changes) -> list[tuple[Any, ...]]:
    return [
        (
            *worker,
            seen.stored_ns // 1000,
            microseconds(seen.beat.at),
            seen.beat.concurrency,
            seen.beat.version,
            in_milliseconds(seen.beat.loop_blocked),
            seen.beat.contract,
            in_milliseconds(seen.beat.clock_ahead),
        )
        for worker, seen in changes.presence.items()
    ]


def departed_rows(changes: Changes) -> list[tuple[str, str, str]]:
    return [worker for worker, seen in changes.presence.items() if seen.beat.stopping]


def ignored_rows(changes: Changes) -> list[tuple[Any, ...]]:
    return [
        (sequence, event.job.service, event.job.job_type, event.job.job_id, event.kind.value, why)
        for sequence, event, why in changes.ignored
    ]


def action_rows(changes: Changes) -> list[tuple[Any, ...]]:
    return [
        (
            action.sequence,
            action.stored_at,
            action.verb.value,
            *(event.job.service, event.job.job_type, event.job.job_id),
            *(event.by, event.reason, event.request),
        )
        for action in changes.actions
        for event in (action.event,)
    ]


def activity_rows(changes: Changes) -> list[tuple[Any, ...]]:
    minutes = {(*queue, str(kind)): events for (*queue, kind), events in changes.activity.items()}
    return _with_sums(minutes, queue_at=1)


def hourly_rows(changes: Changes) -> list[tuple[Any, ...]]:
    hours: Counter[tuple[Any, ...]] = Counter()
    for (of_minute, *queue, kind), events in changes.activity.items():
        hours[of_minute // MINUTES_AN_HOUR, *queue, str(kind)] += events
    return _with_sums(hours, queue_at=1)


def _with_sums(counts: Mapping[tuple[Any, ...], int], *, queue_at: int) -> list[tuple[Any, ...]]:
    """The rows of queues, and their sums; `queue_at` is where the service and the type are."""
    sums: Counter[tuple[Any, ...]] = Counter()
    for kind, number in counts.items():
        sums[*kind[:queue_at], *ALL_QUEUES, *kind[queue_at + 2 :]] += number
    return [(*kind, number) for part in (counts, sums) for kind, number in part.items()]


def state_change_rows(changes: Changes) -> list[tuple[Any, ...]]:
    """Slots of each length, a queue and a state; how many jobs entered and exited it."""
    entered: Counter[tuple[Any, ...]] = Counter()
    exited: Counter[tuple[Any, ...]] = Counter()
    for (of_minute, *queue, before, after), number in changes.moves.items():
        for minutes in CHANGE_SLOTS:
            slot = (minutes, of_minute // minutes, *queue)
            entered[*slot, after.value] += number
            if before is not None:
                exited[*slot, before.value] += number
    return [(*kind, entered[kind], exited[kind]) for kind in entered.keys() | exited.keys()]


def removed_rows(
    at: datetime, before: Sequence[Columns], after: Sequence[Columns]
) -> list[tuple[Any, ...]]:
    """How many jobs fewer each state has; `after` are those of which a part remains in the log."""
    fewer = Counter(map(_queue_and_state, before))
    fewer.subtract(map(_queue_and_state, after))
    return [
        (minutes, minute(at) // minutes, *kind, jobs)
        for kind, jobs in fewer.items()
        if jobs
        for minutes in CHANGE_SLOTS
    ]


def _queue_and_state(columns: Columns) -> tuple[Any, ...]:
    _, service, job_type, _, state, *_ = columns
    return service, job_type, state


def duration_rows(changes: Changes) -> list[tuple[Any, ...]]:
    attempts: Counter[tuple[Any, ...]] = Counter()
    for (of_minute, *kind), number in changes.durations.items():
        for minutes in DURATION_SLOTS:
            attempts[minutes, of_minute // minutes, *kind] += number
    return _with_sums(attempts, queue_at=2)
