"""What jobs are narrowed by, and which index leads to them.

SQLite is told which one: it has no statistics of a file that is filled as the log grows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from jobs_admin.projection.rows import microseconds, value_hash
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobs_admin.api.job_filter import JobFilter, Scalar

# A prefix as long as a ULID's time leaves few jobs.
_NARROW_PREFIX: Final = 10
_HAS_VALUE: Final = (
    "EXISTS (SELECT 1 FROM payload_values AS v WHERE v.hash IN (?, ?) AND v.job = j.job)"
)
_OF_VALUE: Final = "j.job IN (SELECT job FROM payload_values WHERE hash IN (?, ?))"


@dataclass(frozen=True, slots=True)
class Conditions:
    """SQL with a placeholder for each value: user input never becomes part of the SQL text."""

    parts: tuple[str, ...] = ()
    values: tuple[Any, ...] = ()

    def __add__(self, other: Conditions) -> Conditions:
        return Conditions(self.parts + other.parts, self.values + other.values)

    @property
    def where(self) -> str:
        return f" WHERE {' AND '.join(self.parts)}" if self.parts else ""


@dataclass(frozen=True, slots=True)
class Route:
    """A way to the jobs that a filter wants: a FROM, in which jobs are `j`, and a WHERE."""

    source: str
    conditions: Conditions


def status(wanted: JobFilter) -> Conditions:
    """Of a job, or of a count of jobs."""
    found = of_queue(wanted)
    if wanted.states is not None:
        found += _one_of(wanted.states)
    if wanted.error is not None:
        folded = wanted.error.casefold()
        found += Conditions(("error IS NOT NULL AND instr(error, ?) > 0",), (folded,))
    return found


def of_queue(wanted: JobFilter) -> Conditions:
    """The part about service and type."""
    found = Conditions()
    if wanted.service is not None:
        found += Conditions(("service = ?",), (wanted.service,))
    if wanted.type is not None:
        found += Conditions(("type = ?",), (wanted.type,))
    return found


def counts(wanted: JobFilter) -> str:
    """The table with the numbers of jobs by what standing() is about."""
    return "job_counts" if wanted.error is None else "error_counts"


def by_age(wanted: JobFilter) -> Route:
    """Newest first, past all that is not wanted: for filters that most jobs pass."""
    conditions = status(wanted) + _rest(wanted)
    if wanted.until is not None:
        # Goes without saying, and leads past those that are too new.
        conditions += Conditions(("created_at < ?",), (microseconds(wanted.until),))
    return Route("jobs_projection AS j INDEXED BY jobs_by_age", conditions)


def narrowest(wanted: JobFilter) -> Route:
    """By what leaves the fewest jobs, in no order."""
    conditions = status(wanted) + _rest(wanted)
    if wanted.key is not None:
        return Route("jobs_projection AS j INDEXED BY jobs_by_key", conditions)
    if wanted.payload:
        return _by_payload(wanted, conditions)
    prefix = wanted.id_prefix
    if prefix is not None and len(prefix) >= _NARROW_PREFIX:
        return Route("jobs_projection AS j INDEXED BY jobs_by_address", conditions)
    if wanted.error is not None:
        return _by_error(wanted, conditions)
    if wanted.since is not None or wanted.until is not None:
        # The index begins with the state: all of them, where none is named.
        if wanted.states is None:
            conditions += _one_of(tuple(JobState))
        return Route("jobs_projection AS j INDEXED BY jobs_by_change", conditions)
    return Route("jobs_projection AS j INDEXED BY jobs_by_address", conditions)


def _by_error(wanted: JobFilter, conditions: Conditions) -> Route:
    """By each of the texts that match, of which there are fewer than jobs."""
    of = status(wanted)
    texts = f"error IN (SELECT error FROM error_counts{of.where})"  # noqa: S608 - only marks
    source = "jobs_projection AS j INDEXED BY jobs_by_error"
    return Route(source, Conditions((texts,), of.values) + conditions)


def _by_payload(wanted: JobFilter, conditions: Conditions) -> Route:
    """By the jobs that have the first of the values; the others are conditions."""
    (path, value), *_ = (wanted.payload or {}).items()
    first = Conditions((_OF_VALUE,), _hashes(path, value))
    return Route("jobs_projection AS j NOT INDEXED", first + conditions)


def id_range(prefix: str) -> tuple[str, str]:
    """The first id that has the prefix, and the first after all that have it."""
    return prefix, f"{prefix}\U0010ffff"


def _hashes(path: str, value: Scalar) -> tuple[int, int]:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return value_hash(path, value), value_hash(path, text)


def _rest(wanted: JobFilter) -> Conditions:
    found = Conditions()
    for part, *values in _parts(wanted):
        found += Conditions((part,), tuple(values))
    for path, value in (wanted.payload or {}).items():
        found += Conditions((_HAS_VALUE,), _hashes(path, value))
    return found


def _parts(wanted: JobFilter) -> Iterator[tuple[Any, ...]]:
    if wanted.since is not None:
        yield "updated_at >= ?", microseconds(wanted.since)
    if wanted.until is not None:
        yield "updated_at < ?", microseconds(wanted.until)
    if wanted.key is not None:
        yield "key = ?", wanted.key
    if wanted.id_prefix is not None:
        yield "id >= ? AND id < ?", *id_range(wanted.id_prefix)


def _one_of(states: Sequence[JobState]) -> Conditions:
    marks = ", ".join("?" * len(states))
    return Conditions((f"state IN ({marks})",), tuple(state.value for state in states))
