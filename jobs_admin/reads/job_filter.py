"""The SQL conditions of a job filter, and the index that finds the jobs.

The queries name the index, because SQLite has no statistics of a file that grows with the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from jobs_admin.projection.rows import cause_of, microseconds, origin_hash, value_hash
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobs_admin.api.job_filter import JobFilter, Scalar

# A prefix as long as a ULID's time leaves few jobs.
_NARROW_PREFIX: Final = 10
_HAS_VALUE: Final = (
    "EXISTS (SELECT 1 FROM job_values AS v WHERE v.hash IN (?, ?) AND v.job = j.job)"
)
_NAMED: Final = "j.id IN ({marks}) AND j.service || '/' || j.type || '/' || j.id IN ({marks})"
_OF_VALUE: Final = "j.job IN (SELECT job FROM job_values WHERE hash IN (?, ?))"


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
    """A way to the jobs that match a filter: a FROM, in which jobs are `j`, and a WHERE."""

    source: str
    conditions: Conditions


def shared_conditions(job_filter: JobFilter) -> Conditions:
    """Conditions on the columns that the jobs and their counts have in common."""
    found = queue_conditions(job_filter)
    if job_filter.state is not None:
        found += one_of_states(job_filter.state)
    if job_filter.error is not None:
        folded = job_filter.error.casefold()
        found += Conditions(("error IS NOT NULL AND instr(error, ?) > 0",), (folded,))
    return found


def queue_conditions(job_filter: JobFilter) -> Conditions:
    """Conditions on service and type."""
    found = Conditions()
    if job_filter.service is not None:
        found += Conditions(("service = ?",), (job_filter.service,))
    if job_filter.type is not None:
        found += Conditions(("type = ?",), (job_filter.type,))
    return found


def count_table(job_filter: JobFilter) -> str:
    """The table that counts jobs by the columns of shared_conditions()."""
    return "job_counts" if job_filter.error is None else "error_counts"


def by_age(job_filter: JobFilter) -> Route:
    """Newest first, past all that do not match: for filters that most jobs pass."""
    conditions = shared_conditions(job_filter) + _rest(job_filter)
    if job_filter.until is not None:
        # Goes without saying, and leads past those that are too new.
        conditions += Conditions(("created_at < ?",), (microseconds(job_filter.until),))
    return Route("jobs_projection AS j INDEXED BY jobs_by_age", conditions)


def narrowest(job_filter: JobFilter) -> Route:
    """By what leaves the fewest jobs, in no order."""
    conditions = shared_conditions(job_filter) + _rest(job_filter)
    index = _index_of_few(job_filter)
    if index is not None:
        return Route(f"jobs_projection AS j INDEXED BY {index}", conditions)
    if job_filter.has_values:
        return _by_value(job_filter, conditions)
    prefix = job_filter.id_prefix
    if prefix is not None and len(prefix) >= _NARROW_PREFIX:
        return Route("jobs_projection AS j INDEXED BY jobs_by_address", conditions)
    if job_filter.error is not None:
        return _by_error(job_filter, conditions)
    if job_filter.app_version is not None:
        return Route(
            "jobs_projection AS j INDEXED BY jobs_by_app_version",
            conditions + _any_state(job_filter),
        )
    if job_filter.since is not None or job_filter.until is not None:
        return Route(
            "jobs_projection AS j INDEXED BY jobs_by_change", conditions + _any_state(job_filter)
        )
    return Route("jobs_projection AS j INDEXED BY jobs_by_address", conditions)


def _index_of_few(job_filter: JobFilter) -> str | None:
    """The index of a field that few jobs share, if the filter has one."""
    if job_filter.jobs is not None:
        return "jobs_by_address"
    if job_filter.error_group is not None:
        return "jobs_by_cause"
    return "jobs_by_key" if job_filter.key is not None else None


def _any_state(job_filter: JobFilter) -> Conditions:
    """All states, if the filter has none, for an index in which the state precedes the time."""
    return one_of_states(tuple(JobState)) if job_filter.state is None else Conditions()


def _by_error(job_filter: JobFilter, conditions: Conditions) -> Route:
    """By each of the texts that match, of which there are fewer than jobs."""
    of = shared_conditions(job_filter)
    texts = f"error IN (SELECT error FROM error_counts{of.where})"  # noqa: S608 - only marks
    source = "jobs_projection AS j INDEXED BY jobs_by_error"
    return Route(source, Conditions((texts,), of.values) + conditions)


def _by_value(job_filter: JobFilter, conditions: Conditions) -> Route:
    """By the jobs that have the first of the values; the others are conditions."""
    first = Conditions((_OF_VALUE,), next(_value_hashes(job_filter)))
    return Route("jobs_projection AS j NOT INDEXED", first + conditions)


def id_range(prefix: str) -> tuple[str, str]:
    """The first id that has the prefix, and the first after all that have it."""
    return prefix, f"{prefix}\U0010ffff"


def _value_hashes(job_filter: JobFilter) -> Iterator[tuple[int, int]]:
    """Two for each value: a number in the payload may be stored as text."""
    for name, origin in job_filter.origins.items():
        yield origin_hash(name, origin), origin_hash(name, origin)
    for path, value in (job_filter.payload or {}).items():
        yield _hashes(path, value)


def _hashes(path: str, value: Scalar) -> tuple[int, int]:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return value_hash(path, value), value_hash(path, text)


def _rest(job_filter: JobFilter) -> Conditions:
    found = Conditions()
    for part, *values in _parts(job_filter):
        found += Conditions((part,), tuple(values))
    for hashes in _value_hashes(job_filter):
        found += Conditions((_HAS_VALUE,), hashes)
    return found


def _parts(job_filter: JobFilter) -> Iterator[tuple[Any, ...]]:
    if job_filter.since is not None:
        yield "updated_at >= ?", microseconds(job_filter.since)
    if job_filter.until is not None:
        yield "updated_at < ?", microseconds(job_filter.until)
    if job_filter.key is not None:
        yield "key = ?", job_filter.key
    if job_filter.app_version is not None:
        yield "app_version = ?", job_filter.app_version
    if job_filter.error_group is not None:
        yield "j.cause <> 0 AND j.cause = ?", cause_of(job_filter.error_group)
    if job_filter.jobs is not None:
        yield _NAMED.format(marks=", ".join("?" * len(job_filter.jobs))), *_names(job_filter.jobs)
    if job_filter.id_prefix is not None:
        yield "id >= ? AND id < ?", *id_range(job_filter.id_prefix)


def _names(jobs: Sequence[str]) -> Iterator[str]:
    """The ids, by which an index finds the jobs, and the whole names."""
    yield from (name.rpartition("/")[2] for name in jobs)
    yield from jobs


def one_of_states(states: Sequence[JobState]) -> Conditions:
    marks = ", ".join("?" * len(states))
    return Conditions((f"state IN ({marks})",), tuple(state.value for state in states))
