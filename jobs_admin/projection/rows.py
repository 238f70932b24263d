"""Jobs ⇄ rows: the columns that lists are filtered by, and the whole job as JSON."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import orjson

from jobs_admin.projection.batch import JobRow
from trellis_jobs.model.job import LOGS_KEPT
from trellis_jobs.wire import job_errors, jobs
from trellis_jobs.wire.fields import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobs_admin.projection.batch import Changes
    from trellis_jobs.model.job import Job
    from trellis_jobs.model.job_errors import JobError
    from trellis_jobs.model.json_values import Json

Scalar = str | int | float | bool

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
    "last_sequence",
    "last_stored_at",
    "lines",
    "document",
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MINUTE: Final = timedelta(minutes=1)
_DEEPEST_VALUE: Final = 4
_MOST_VALUES: Final = 32
_LONGEST_VALUE: Final = 200


def minute(moment: datetime) -> int:
    """As activity is counted: whole minutes since 1970."""
    return (moment - _EPOCH) // _MINUTE


def microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def optional_microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else microseconds(moment)


def moment_of(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def to_row(row: JobRow) -> tuple[Any, ...]:
    """In the order of COLUMNS."""
    job, standing, run = row.job, row.job.standing, row.job.run
    held = run.concurrency
    return (
        row.number,
        job.address.service,
        job.address.job_type,
        job.address.job_id,
        standing.state.value,
        standing.tries,
        standing.max_tries,
        microseconds(job.created_at),
        last_change(job),
        optional_microseconds(run.started_at),
        optional_microseconds(run.ended_at),
        optional_microseconds(standing.deadline),
        optional_microseconds(standing.next_attempt_at),
        standing.owner.instance if standing.owner else None,
        held.key if held else None,
        held.key_hash if held else None,
        folded_error(job.last_error) if job.last_error else None,
        row.last_sequence,
        row.last_stored_at,
        row.lines,
        dumps(jobs.to_json(job)).decode(),
    )


def last_change(job: Job) -> int:
    """Not before it was created, whatever the clocks of its workers said."""
    return microseconds(max(job.updated_at, job.created_at))


def folded_error(error: JobError) -> str:
    """What texts are looked for in, themselves folded: in any case."""
    return job_errors.text(error).casefold()


def from_row(
    number: int, last_sequence: int, last_stored_at: int, lines: int, document: str
) -> JobRow:
    job = jobs.from_json(orjson.loads(document))
    return JobRow(number, job, last_sequence, last_stored_at, lines, written=job)


def payload_hashes(payload: Json) -> set[int]:
    """One for each scalar in the payload, down to a depth: `customer.id = 7` becomes a number."""
    found = islice(_scalars((), payload), _MOST_VALUES)
    return {value_hash(".".join(path), value) for path, value in found}


def value_hash(path: str, value: Scalar) -> int:
    """Signed, as SQLite's integers are."""
    text = orjson.dumps([path, value])
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), signed=True)


def _scalars(path: tuple[str, ...], value: Json) -> Iterator[tuple[tuple[str, ...], Scalar]]:
    if isinstance(value, dict):
        if len(path) < _DEEPEST_VALUE:
            for name, member in value.items():
                yield from _scalars((*path, name), member)
    elif path and _is_searchable(value):
        yield path, value


def _is_searchable(value: Json) -> TypeGuard[Scalar]:
    if isinstance(value, str):
        return len(value) <= _LONGEST_VALUE
    return isinstance(value, int | float)


def payload_rows(changes: Changes) -> list[tuple[int, int]]:
    return [
        (value, number) for number, payload in changes.begun for value in payload_hashes(payload)
    ]


def line_rows(changes: Changes) -> list[tuple[int, int, int, int, str, str]]:
    return [
        (n.job, n.number, n.run, microseconds(n.line.at), n.line.level.value, n.line.message)
        for n in changes.lines
    ]


def outdated_lines(changes: Changes) -> list[tuple[int, int]]:
    newest = {numbered.job: numbered.number for numbered in changes.lines}
    return [(job, number - LOGS_KEPT) for job, number in newest.items() if number > LOGS_KEPT]


def sighting_rows(changes: Changes) -> list[tuple[Any, ...]]:
    return [
        (
            *worker,
            seen.stored_ns // 1000,
            microseconds(seen.beat.at),
            seen.beat.concurrency,
            seen.beat.version,
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
